package debian

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/distro/oci"
)

func TestSourcesOfTheDistributionOnly(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"sources.list": "# deb http://commented.example bookworm main\n" +
			"deb [arch=amd64 signed-by=/keys/debian.gpg] http://mirror.example/debian bookworm main contrib\n" +
			"deb-src http://mirror.example/debian bookworm main\n",
		"sources.list.d/updates.sources": "Types: deb\n# a comment\nURIs: http://mirror.example/debian\n" +
			"Suites: bookworm-updates bookworm-backports\nComponents: main\nSigned-By: /keys/debian.gpg\n\n" +
			"Types: deb\nURIs: http://security.example/debian-security\nSuites: bookworm-security\nComponents: main\n",
		"sources.list.d/off.sources":    "Enabled: no\nTypes: deb\nURIs: http://off.example\nSuites: bookworm\nComponents: main\n",
		"sources.list.d/vendor.list":    "deb https://vendor.example/apt stable main\n",
		"sources.list.d/vendor.list.gz": "deb http://ignored.example bookworm main\n",
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := Sources(dir, "bookworm")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, source := range sources {
		got.WriteString(source.Line())
	}
	want := "deb [signed-by=/keys/debian.gpg] http://mirror.example/debian bookworm main contrib\n" +
		"deb [signed-by=/keys/debian.gpg] http://mirror.example/debian bookworm-updates main\n" +
		"deb http://security.example/debian-security bookworm-security main\n"
	if got.String() != want {
		t.Errorf("Sources:\n%swant\n%s", &got, want)
	}
	if none, err := Sources(t.TempDir(), "bookworm"); err != nil || len(none) != 0 {
		t.Errorf("Sources of an empty configuration: %v, %v", none, err)
	}
}

func TestInstalledPackagesAreListed(t *testing.T) {
	status := "Package: systemd\nStatus: install ok installed\nArchitecture: amd64\nVersion: 252.1-1\nDescription: init\n a colon: here\n\n" +
		"Package: removed\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n\n" +
		"Package: adduser\nStatus: install ok installed\nArchitecture: all\nVersion: 3.1\n\n"
	got := parseStatus(status)
	want := []Installed{{Name: "adduser", Version: "3.1", Arch: "all"}, {Name: "systemd", Version: "252.1-1", Arch: "amd64"}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("parseStatus = %+v, want %+v", got, want)
	}
}

func TestSlimKeepsLicences(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"usr/share/doc/a/copyright", "usr/share/doc/a/README", "usr/share/man/man1/a.1", "var/lib/dpkg/status-old", "bin/a"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Slim(dir); err != nil {
		t.Fatal(err)
	}
	for name, stays := range map[string]bool{
		"usr/share/doc/a/copyright": true, "usr/share/doc/a/README": false, "usr/share/man": true, "usr/share/man/man1": false,
		"var/lib/dpkg/status-old": false, "bin/a": true,
	} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s: %v, want it there: %v", name, err, stays)
		}
	}
}

// hostRoot is a tar file with a program of this machine, its libraries, and links as Debian has them.
func hostRoot(t *testing.T) *bytes.Buffer {
	t.Helper()
	out := new(bytes.Buffer)
	w := tar.NewWriter(out)
	add := func(header *tar.Header, data []byte) {
		header.Size = int64(len(data))
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"usr", "usr/bin", "usr/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/plugins", "usr/lib64", "etc", "etc/alternatives"} {
		add(&tar.Header{Name: "./" + dir + "/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	}
	for link, target := range map[string]string{
		"./bin": "usr/bin", "./lib": "usr/lib", "./lib64": "usr/lib64", "./usr/lib64/ld-linux-x86-64.so.2": "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
		"./usr/bin/yes": "/etc/alternatives/yes", "./etc/alternatives/yes": "/usr/bin/true",
	} {
		add(&tar.Header{Name: link, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}, nil)
	}
	for name, source := range map[string]string{
		"./usr/bin/true":                                  "/usr/bin/true",
		"./usr/lib/x86_64-linux-gnu/libc.so.6":            "/lib/x86_64-linux-gnu/libc.so.6",
		"./usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2": "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
	} {
		data, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		add(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755}, data)
	}
	add(&tar.Header{Name: "./usr/lib/x86_64-linux-gnu/plugins/one", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("plugin"))
	add(&tar.Header{Name: "./usr/bin/unrelated", Typeflag: tar.TypeReg, Mode: 0o755}, []byte("#!/bin/sh\n"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestClosureTakesAProgramWithItsLibraries(t *testing.T) {
	nodes, err := Closure(hostRoot(t), []string{"bin/yes"}, []string{"usr/lib/*/plugins"})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]oci.Node)
	for _, node := range nodes {
		got[node.Path] = node
	}
	for name, link := range map[string]string{
		"bin": "usr/bin", "usr/bin/yes": "/etc/alternatives/yes", "etc/alternatives/yes": "/usr/bin/true", "usr/bin/true": "",
		"lib64": "usr/lib64", "usr/lib64/ld-linux-x86-64.so.2": "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "lib": "usr/lib",
		"usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2": "", "usr/lib/x86_64-linux-gnu/libc.so.6": "", "usr/lib/x86_64-linux-gnu/plugins/one": "",
	} {
		node, ok := got[name]
		if !ok || node.Link != link || (link == "" && len(node.Data) == 0) {
			t.Errorf("%s: there %v, link %q; want link %q", name, ok, node.Link, link)
		}
		delete(got, name)
	}
	if len(got) != 0 {
		t.Errorf("more than is needed: %v", len(got))
	}
	if _, err := Closure(hostRoot(t), []string{"usr/bin/nosuch"}, nil); err == nil {
		t.Error("Closure of a missing program: want an error")
	}
}
