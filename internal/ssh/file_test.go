package remote_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
)

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

func TestAFileIsLaidOnce(t *testing.T) {
	host := sshtest.Start(t)
	host.AddUser("alice", "alice ALL=(ALL) NOPASSWD: ALL")
	there := where(t, host)
	there.User = "alice"
	client := newPool(t, impatient).Client(there)
	file := remote.Bytes("files", "/etc/new folder/it's a \"file\"", 0o640, []byte("one\x00\ntwo"))
	file.Owner = "root:alice"
	for i, want := range []bool{true, false} {
		if changed, err := client.Upload(newContext(t), file); err != nil || changed != want {
			t.Fatalf("%d: changed %v, error %v", i, changed, err)
		}
	}
	if got := host.Do(`cd '/etc/new folder' && stat -c '%a %U %G' * && cat * | sha256sum && ls -A | wc -l`); got != "640 root alice\n"+sum([]byte("one\x00\ntwo"))+"  -\n1" {
		t.Errorf("there is %q", got)
	}
	host.Do(`chmod 777 '/etc/new folder/'*`)
	if changed, err := client.Upload(newContext(t), file); err != nil || changed || !strings.HasPrefix(host.Do(`stat -c %a '/etc/new folder/'*`), "640") {
		t.Errorf("its mode was not mended: changed %v, error %v", changed, err)
	}
	content, err := client.Download(newContext(t), "files", file.Path, 100)
	if err != nil || string(content) != "one\x00\ntwo" {
		t.Errorf("%q, error %v", content, err)
	}
	if _, err := client.Download(newContext(t), "files", file.Path, 7); err == nil || !strings.Contains(err.Error(), "more than 7 bytes") {
		t.Errorf("error %v", err)
	}
	if _, err := client.Download(newContext(t), "files", "/etc/none", 7); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	for _, bad := range []string{"", "relative", "/", "/a/../b", "/a\nb", "/a/"} {
		if _, err := client.Upload(newContext(t), remote.Bytes("files", bad, 0, nil)); err == nil {
			t.Errorf("a file was laid at %q", bad)
		}
	}
}

func TestAnUploadGoesOnWhereItWasBroken(t *testing.T) {
	host := sshtest.Start(t)
	proxy := sshtest.NewProxy(t, host)
	client := newPool(t, impatient).Client(behind(t, host, proxy))
	content := make([]byte, 24<<20)
	_, _ = rand.Read(content)
	local := filepath.Join(t.TempDir(), "kube")
	if err := os.WriteFile(local, content, 0o600); err != nil {
		t.Fatal(err)
	}
	breaks := []func(){
		func() { proxy.Drop() },
		func() { proxy.Stall(); time.AfterFunc(7*time.Second, proxy.Resume) },
		func() { proxy.Drop() },
	}
	var highest, sent int64
	last := int64(-1)
	file := remote.File{Step: "install", Path: "/usr/local/bin/kube", Mode: 0o755, SHA256: sum(content)}
	file.Progress = func(done, size int64) {
		if last >= 0 && done > last {
			sent += done - last
		}
		last = done
		highest = max(highest, done)
		if len(breaks) > 0 && done > size/int64(len(breaks)+1) {
			go breaks[0]()
			breaks = breaks[1:]
		}
	}
	if changed, err := client.UploadFile(newContext(t), local, file); err != nil || !changed {
		t.Fatalf("changed %v, error %v", changed, err)
	}
	if got := host.Do("sha256sum </usr/local/bin/kube; stat -c %a /usr/local/bin/kube; ls -A /usr/local/bin | grep -c part || :"); got != sum(content)+"  -\n755\n0" {
		t.Errorf("there is %q", got)
	}
	if proxy.Accepted() < 3 || sent > 3*int64(len(content))/2 {
		t.Errorf("%d connections, %d bytes sent of %d", proxy.Accepted(), sent, len(content))
	}
}

func TestWhatIsBrokenIsNeverPutInPlace(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host))
	host.Do("echo old >/etc/file")
	file := remote.Bytes("files", "/etc/file", 0o600, []byte("new"))
	file.SHA256 = sum([]byte("something else"))
	_, err := client.Upload(newContext(t), file)
	assertSays(t, err, host.Address, "files", "/etc/file", "another checksum")
	if got := host.Do("cat /etc/file; ls -A /etc | grep -c part || :"); got != "old\n0" {
		t.Errorf("there is %q", got)
	}
	// Half of a file that arrived wrong, as after a crash of the host, is sent anew.
	content := []byte("a file with some content")
	host.Do("printf 'A FILE WITH' >/etc/.file." + sum(content) + ".part")
	if _, err := client.Upload(newContext(t), remote.Bytes("files", "/etc/file", 0o600, content)); err != nil {
		t.Error(err)
	}
	if got := host.Do("cat /etc/file"); got != string(content) {
		t.Errorf("there is %q", got)
	}
}

func TestAFullDisk(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host))
	var progress atomic.Int64
	file := remote.Bytes("install", "/mnt/big", 0o600, bytes.Repeat([]byte("x"), 3<<20))
	file.Progress = func(done, _ int64) { progress.Store(done) }
	_, err := client.Upload(newContext(t), file)
	if !errors.Is(err, remote.ErrDiskFull) {
		t.Errorf("error %v", err)
	}
	assertSays(t, err, host.Address, "install", "/mnt/big", "make room for 4 MiB in /mnt")
	if got := host.Do("ls -A /mnt"); got != "" {
		t.Errorf("left is %q", got)
	}
	host.Do("mount -o remount,size=8m /mnt")
	if _, err := client.Upload(newContext(t), file); err != nil {
		t.Errorf("after it was mended: %v", err)
	}
}

func TestFacts(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host))
	facts, err := client.Facts(newContext(t), "preflight")
	if err != nil {
		t.Fatal(err)
	}
	if facts.OS == "" || facts.CPUs < 1 || facts.Memory < 1<<28 || facts.Free < 1 || facts.Kernel == "" || facts.BootID == "" || facts.Init != "sh" || !facts.Like("debian") {
		t.Errorf("%+v", facts)
	}
	if err := client.RequireArchitecture("preflight", facts, facts.Architecture); err != nil {
		t.Error(err)
	}
	host.Do(`rm /usr/bin/uname && printf '#!/bin/sh\necho riscv64\n' >/usr/bin/uname && chmod 755 /usr/bin/uname`)
	facts, err = client.Facts(newContext(t), "preflight")
	if err != nil {
		t.Fatal(err)
	}
	err = client.RequireArchitecture("preflight", facts, "amd64", "arm64")
	if !errors.Is(err, remote.ErrArchitecture) {
		t.Errorf("error %v", err)
	}
	assertSays(t, err, host.Address, "preflight", "riscv64", "amd64 and arm64")
}
