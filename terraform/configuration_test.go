package configuration

import (
	"slices"
	"strings"
	"testing"
)

func TestEveryVersionHasEveryKind(t *testing.T) {
	for cloud, want := range map[string][]string{"aws": {"v1.1.0", "v1.0.0"}, "gcp": {"v1.0.0"}, "azure": {"v1.0.0"}} {
		if got := Versions(cloud); !slices.Equal(got, want) {
			t.Errorf("Versions(%s) = %v", cloud, got)
		}
		for _, version := range want {
			for _, kind := range []Kind{Network, Cluster, Bucket} {
				found, err := Files(cloud, version, kind)
				if err != nil || found["main.tf"] == nil || found["provider.tf"] == nil {
					t.Errorf("Files(%s, %s, %s) = %d files, %v", cloud, version, kind, len(found), err)
				}
				for name, content := range found {
					if strings.Contains(string(content), "\t") {
						t.Errorf("%s/%s/%s/%s is not formatted", cloud, version, kind, name)
					}
				}
			}
		}
	}
}

func TestAVersionIsResolved(t *testing.T) {
	if got, err := Resolve("aws", ""); err != nil || got != "v1.1.0" {
		t.Errorf("Resolve = %q, %v", got, err)
	}
	if got, err := Resolve("aws", "v1.0.0"); err != nil || got != "v1.0.0" {
		t.Errorf("Resolve = %q, %v", got, err)
	}
	if _, err := Resolve("aws", "v9.0.0"); err == nil || !strings.Contains(err.Error(), "v1.1.0, v1.0.0") {
		t.Errorf("Resolve of an unknown version = %v", err)
	}
	if _, err := Resolve("moon", ""); err == nil {
		t.Error("Resolve of an unknown cloud: want an error")
	}
	if _, err := Files("aws", "v1.0.0", "castle"); err == nil {
		t.Error("Files of an unknown kind: want an error")
	}
}
