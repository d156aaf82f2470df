package pki

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func testServer() Server {
	return Server{
		NodeName:         "node-1",
		ClusterDomain:    "cluster.local",
		ServiceCIDRs:     []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16")},
		NodeIPs:          []netip.Addr{netip.MustParseAddr("192.0.2.10")},
		AdvertiseAddress: netip.MustParseAddr("192.0.2.11"),
	}
}

// newStore returns a store in a fresh directory whose certificates exist.
func newStore(t *testing.T) (*Store, *clocktesting.FakeClock) {
	t.Helper()
	clk := clocktesting.NewFakeClock(start)
	s := New(filepath.Join(t.TempDir(), "tls"), clk)
	ensure(t, s, testServer().Leaves())
	return s, clk
}

func ensure(t *testing.T, s *Store, leaves []Leaf) []Renewal {
	t.Helper()
	renewals, err := s.Ensure(leaves)
	if err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	return renewals
}

func names(renewals []Renewal) []string {
	out := make([]string, 0, len(renewals))
	for _, r := range renewals {
		out = append(out, r.Name)
	}
	return out
}

// snapshot returns the content of every file below dir.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustCert(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	cert, err := readCert(path)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func sameFiles(t *testing.T, before, after map[string]string) {
	t.Helper()
	for path, data := range after {
		if before[path] != data {
			t.Errorf("%s was written", path)
		}
	}
	if len(before) != len(after) {
		t.Errorf("the directory had %d files, now it has %d", len(before), len(after))
	}
}

func TestFirstStartMakesEverythingWithSafeModes(t *testing.T) {
	s, _ := newStore(t)
	for _, l := range testServer().Leaves() {
		cert := mustCert(t, s.CertPath(l.Name))
		if diff := l.difference(cert); diff != "" {
			t.Errorf("%s: %s", l.Name, diff)
		}
		if err := cert.CheckSignatureFrom(mustCert(t, s.CAPath(l.CA))); err != nil {
			t.Errorf("%s: %v", l.Name, err)
		}
		if cert.IsCA || cert.KeyUsage&x509.KeyUsageCertSign != 0 {
			t.Errorf("%s may sign certificates", l.Name)
		}
		if want := start.Add(LeafLifetime); !cert.NotAfter.Equal(want) {
			t.Errorf("%s expires at %v, want %v", l.Name, cert.NotAfter, want)
		}
		if want := start.Add(-Backdate); !cert.NotBefore.Equal(want) {
			t.Errorf("%s is valid from %v, want %v", l.Name, cert.NotBefore, want)
		}
	}
	err := filepath.WalkDir(s.Dir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		switch {
		case entry.IsDir():
			want = 0o700
		case strings.HasSuffix(path, ".crt"), strings.HasSuffix(path, ".pub"):
			want = 0o644
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEnsureChangesNothingWhenAllIsWell(t *testing.T) {
	s, clk := newStore(t)
	before := snapshot(t, s.Dir())
	clk.Step(30 * 24 * time.Hour)
	if renewals := ensure(t, s, testServer().Leaves()); len(renewals) != 0 {
		t.Errorf("renewed %v", renewals)
	}
	sameFiles(t, before, snapshot(t, s.Dir()))
}

// A crash leaves the first n files, in the order they are written.
func TestFirstStartRecoversFromACrashAfterEveryFile(t *testing.T) {
	whole, clk := newStore(t)
	shared := sharedFiles()
	for n := range len(shared) + 1 {
		s := New(filepath.Join(t.TempDir(), "tls"), clk)
		for _, name := range shared[:n] {
			copyFile(t, whole.path(name), s.path(name))
		}
		before := snapshot(t, whole.Dir())
		ensure(t, s, testServer().Leaves())
		for _, name := range shared[:n] {
			if got := snapshot(t, s.Dir())[s.path(name)]; got != before[whole.path(name)] {
				t.Errorf("crash after %d files: %s was replaced", n, name)
			}
		}
		if renewals := ensure(t, s, testServer().Leaves()); len(renewals) != 0 {
			t.Errorf("crash after %d files: the second Ensure made %v", n, renewals)
		}
		if _, err := ReadBundle(s.Dir()); err != nil {
			t.Errorf("crash after %d files: %v", n, err)
		}
	}
}

func TestBrokenSharedMaterialIsAnErrorAndNothingIsWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(t *testing.T, s *Store)
		says   string
	}{
		"CA certificate missing": {func(t *testing.T, s *Store) { remove(t, s.CAPath(ClusterCA)) }, "ca.crt"},
		"CA key missing":         {func(t *testing.T, s *Store) { remove(t, s.KeyPath("ca")) }, "the key is missing"},
		"CA and key missing":     {func(t *testing.T, s *Store) { remove(t, s.CAPath(EtcdCA), s.KeyPath("etcd/ca")) }, "issued already"},
		"CA key of another CA": {func(t *testing.T, s *Store) {
			copyFile(t, s.KeyPath("etcd/ca"), s.KeyPath("ca"))
		}, "do not belong together"},
		"CA certificate cut short": {func(t *testing.T, s *Store) {
			if err := os.Truncate(s.CAPath(FrontProxyCA), 100); err != nil {
				t.Fatal(err)
			}
		}, "unreadable"},
		"CA key empty": {func(t *testing.T, s *Store) {
			if err := os.Truncate(s.KeyPath("ca"), 0); err != nil {
				t.Fatal(err)
			}
		}, "unreadable"},
		"a leaf in place of the CA": {func(t *testing.T, s *Store) {
			copyFile(t, s.CertPath(Admin), s.CAPath(ClusterCA))
			copyFile(t, s.KeyPath(Admin), s.KeyPath("ca"))
		}, "not one of an authority"},
		"service-account key missing": {func(t *testing.T, s *Store) { remove(t, s.ServiceAccountKeyPath()) }, "sa.key"},
		"service-account keys differ": {func(t *testing.T, s *Store) {
			copyFile(t, s.KeyPath("ca"), s.ServiceAccountKeyPath())
		}, "none of the public keys"},
		"encryption configuration missing": {func(t *testing.T, s *Store) { remove(t, s.EncryptionConfigPath()) }, "Secrets cannot be read"},
		"encryption configuration damaged": {func(t *testing.T, s *Store) {
			copyFile(t, s.KeyPath("ca"), s.EncryptionConfigPath())
		}, "not an encryption configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newStore(t)
			tc.damage(t, s)
			remove(t, s.CertPath(Scheduler)) // something that Ensure would issue
			before := snapshot(t, s.Dir())
			_, err := s.Ensure(testServer().Leaves())
			if !errors.Is(err, ErrBrokenCA) {
				t.Fatalf("got %v, want ErrBrokenCA", err)
			}
			for _, want := range []string{"broken CA: ", tc.says, "restore", s.Dir()} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not contain %q", err, want)
				}
			}
			sameFiles(t, before, snapshot(t, s.Dir()))
		})
	}
}

func TestLoneCACertificateIsBrokenEvenOnAFreshDirectory(t *testing.T) {
	whole, clk := newStore(t)
	s := New(filepath.Join(t.TempDir(), "tls"), clk)
	copyFile(t, whole.CAPath(ClusterCA), s.CAPath(ClusterCA))
	if _, err := s.Ensure(testServer().Leaves()); !errors.Is(err, ErrBrokenCA) {
		t.Fatalf("got %v, want ErrBrokenCA", err)
	}
}

func TestSharedPublicKeyFileIsRestoredAndMayHoldOldKeys(t *testing.T) {
	s, _ := newStore(t)
	before := snapshot(t, s.Dir())
	remove(t, s.ServiceAccountPublicKeyPath())
	ensure(t, s, testServer().Leaves())
	sameFiles(t, before, snapshot(t, s.Dir()))

	other, _ := newStore(t)
	both := snapshot(t, other.Dir())[other.ServiceAccountPublicKeyPath()] + before[s.ServiceAccountPublicKeyPath()]
	if err := os.WriteFile(s.ServiceAccountPublicKeyPath(), []byte(both), 0o644); err != nil {
		t.Fatal(err)
	}
	ensure(t, s, testServer().Leaves())
}

func TestClockSkewIsAnErrorAndNothingIsWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		at   time.Time
		says []string
	}{
		"clock behind the certificates": {start.Add(-Backdate - time.Hour), []string{"ca.crt", "2026-03-01T11:55:00Z", "2026-03-01T10:55:00Z", "set the clock right"}},
		"clock after the CA's end":      {start.Add(AuthorityLifetime + time.Hour), []string{"ca.crt", "2036-02-27T12:00:00Z", "2036-02-27T13:00:00Z", "set the clock right"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, clk := newStore(t)
			remove(t, s.CertPath(Scheduler))
			before := snapshot(t, s.Dir())
			clk.SetTime(tc.at)
			_, err := s.Ensure(testServer().Leaves())
			var skew *ClockError
			if !errors.As(err, &skew) {
				t.Fatalf("got %v, want a ClockError", err)
			}
			for _, want := range tc.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not contain %q", err, want)
				}
			}
			sameFiles(t, before, snapshot(t, s.Dir()))
		})
	}
}

// A certificate renewed while the clock ran ahead is not yet valid once the
// clock is right; the authority still is.
func TestLeafFromTheFutureIsAClockError(t *testing.T) {
	s, clk := newStore(t)
	remove(t, s.CertPath(Scheduler))
	clk.Step(48 * time.Hour)
	ensure(t, s, testServer().Leaves())
	clk.SetTime(start)
	before := snapshot(t, s.Dir())
	_, err := s.Ensure(testServer().Leaves())
	var skew *ClockError
	if !errors.As(err, &skew) || skew.Path != s.CertPath(Scheduler) {
		t.Fatalf("got %v, want a ClockError for the scheduler's certificate", err)
	}
	sameFiles(t, before, snapshot(t, s.Dir()))
}

func TestSmallClockDifferencesAreForgiven(t *testing.T) {
	s, clk := newStore(t)
	clk.SetTime(start.Add(-Backdate + time.Second))
	if renewals := ensure(t, s, testServer().Leaves()); len(renewals) != 0 {
		t.Errorf("renewed %v", renewals)
	}
}

func TestNextExpiry(t *testing.T) {
	s, clk := newStore(t)
	clk.Step(time.Hour)
	remove(t, s.CertPath(Admin))
	leaves := testServer().Leaves()
	ensure(t, s, leaves)
	only := slices.DeleteFunc(slices.Clone(leaves), func(l Leaf) bool { return l.Name != Admin })
	for _, tc := range []struct {
		leaves []Leaf
		name   string
		at     time.Time
	}{
		{leaves, APIServer, start.Add(LeafLifetime)},
		{only, Admin, start.Add(time.Hour + LeafLifetime)},
		{nil, "ca", start.Add(AuthorityLifetime)},
	} {
		got, err := s.NextExpiry(tc.leaves)
		if err != nil || got.Name != tc.name || !got.NotAfter.Equal(tc.at) {
			t.Errorf("NextExpiry = %v, %v, want %s at %v", got, err, tc.name, tc.at)
		}
	}
	remove(t, s.CertPath(Admin))
	if _, err := s.NextExpiry(only); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("NextExpiry of a missing certificate: %v", err)
	}
}
