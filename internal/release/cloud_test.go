package release

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestAReleaseWithoutCloudsSaysHowToGetThem(t *testing.T) {
	if _, err := OpenCloud(sample(t).Dir()); err == nil || !strings.Contains(err.Error(), "make distro-byoc") {
		t.Errorf("OpenCloud = %v", err)
	}
}

func TestTheCloudPartIsFound(t *testing.T) {
	dir := t.TempDir()
	part := filepath.Join(dir, CloudDir)
	write(t, filepath.Join(part, "bin/tofu"), "program")
	manifest := Manifest{Schema: Schema, Artifacts: []Artifact{
		{Name: "tofu", Kind: KindBinary, Version: "v1.12.6", Path: "bin/tofu", SHA256: someSum},
		{Name: "aws-lock", Kind: KindLock, Version: "v6.48.0", Path: "locks/aws.lock.hcl", SHA256: someSum},
	}}
	if err := manifest.Write(part); err != nil {
		t.Fatal(err)
	}
	cloud, err := OpenCloud(dir)
	if err != nil {
		t.Fatal(err)
	}
	if path, err := cloud.Tofu(); err != nil || path != filepath.Join(part, "bin/tofu") {
		t.Errorf("Tofu = %q, %v", path, err)
	}
	if path, err := cloud.Lock("aws"); err != nil || path != filepath.Join(part, "locks/aws.lock.hcl") {
		t.Errorf("Lock = %q, %v", path, err)
	}
	if _, err := cloud.Lock("google"); err == nil || !strings.Contains(err.Error(), "have aws") {
		t.Errorf("Lock of a provider that is not there = %v", err)
	}
	if cloud.Mirror() != filepath.Join(part, "mirror") {
		t.Errorf("Mirror = %s", cloud.Mirror())
	}
}
