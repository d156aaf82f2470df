package config

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func variables(set map[string]string) func(string) string {
	return func(name string) string { return set[name] }
}

func store(t *testing.T) *Store {
	t.Helper()
	s, err := Locate(variables(map[string]string{"XDG_CONFIG_HOME": t.TempDir()}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLocate(t *testing.T) {
	for want, set := range map[string]map[string]string{
		"/etc/cloud.yaml":                         {"PLASMACLOUD_CONFIG": "/etc/cloud.yaml", "HOME": "/home/a"},
		"/x/plasmacloud/config.yaml":              {"XDG_CONFIG_HOME": "/x", "HOME": "/home/a"},
		"/home/a/.config/plasmacloud/config.yaml": {"XDG_CONFIG_HOME": "relative", "HOME": "/home/a"},
	} {
		if s, err := Locate(variables(set)); err != nil || s.Path() != want {
			t.Errorf("%v: %v %v", set, s, err)
		}
	}
	if _, err := Locate(variables(nil)); err == nil {
		t.Error("a place was found without HOME")
	}
}

func TestContextsAreKept(t *testing.T) {
	s, ctx := store(t), t.Context()
	if file, err := s.Load(); err != nil || len(file.Contexts) != 0 {
		t.Fatalf("before anything was written: %v %v", file, err)
	}
	home := Context{Name: "home", Server: "https://127.0.0.1:6443", IAM: "https://127.0.0.1:8443", Project: "a"}
	work := Context{Name: "work", Kubeconfig: "/root/admin.kubeconfig"}
	err := s.Update(ctx, func(f *File) error {
		f.Put(home)
		f.Put(work)
		home.Project = "b"
		f.Put(home)
		f.CurrentContext = "home"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := s.Load()
	if err != nil || len(file.Contexts) != 2 || *file.Find("home") != home || *file.Find("work") != work || file.Find("play") != nil {
		t.Fatalf("%+v %v", file, err)
	}
	for path, want := range map[string]os.FileMode{s.Path(): 0o600, filepath.Dir(s.Path()): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	err = s.Update(ctx, func(f *File) error {
		if !f.Remove("home") || f.Remove("home") || f.CurrentContext != "" {
			t.Error("home was not removed, or twice, or is still current")
		}
		return errors.New("changed my mind")
	})
	if err == nil {
		t.Error("the error was lost")
	}
	if file, err := s.Load(); err != nil || file.Find("home") == nil {
		t.Errorf("a failed change was written: %v", err)
	}
}

func TestBadContextsAreRefused(t *testing.T) {
	for says, c := range map[string]Context{
		"is no name":             {Name: "a b", Server: "https://x"},
		"server: it is":          {Name: "a"},
		"not https":              {Name: "a", Server: "http://x"},
		"is no URL":              {Name: "a", Server: "https://user:secret@x"},
		"iam: ":                  {Name: "a", Server: "https://x", IAM: "x"},
		"no certificate":         {Name: "a", Server: "https://x", CA: "hello"},
		"give it, or the server": {Name: "a", Server: "https://x", Kubeconfig: "/x"},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, not %q", c, err, says)
		}
	}
	good := Context{Name: "a.b_c-1", Server: "https://x:1", IAM: "https://y", CA: certificate(t)}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	for content, says := range map[string]string{
		"contexts: 1":          "config.yaml",
		"contexts: []\nnew: 1": "unknown field",
		"contexts: [{name: a, server: 'https://x'}, {name: a, server: 'https://x'}]": "there twice",
		"contexts: [{name: a, server: 'http://x'}]":                                  `context "a": server`,
	} {
		s := store(t)
		put(t, s.Path(), content, 0o600)
		if _, err := s.Load(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, not %q", content, err, says)
		}
	}
}

func TestSessionsAreKept(t *testing.T) {
	s, ctx := store(t), t.Context()
	first := Token{AccessToken: "a", RefreshToken: "r", ExpiresAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	if _, err := s.UpdateToken(ctx, "home", func(Token) (Token, error) { return first, nil }); err != nil {
		t.Fatal(err)
	}
	if have, err := s.Token("home"); err != nil || have != first {
		t.Errorf("%+v %v", have, err)
	}
	if have, err := s.Token("work"); err != nil || have != (Token{}) {
		t.Errorf("%+v %v", have, err)
	}
	if info, err := os.Stat(s.TokensPath()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if _, err := s.UpdateToken(ctx, "home", func(Token) (Token, error) { return Token{}, nil }); err != nil {
		t.Fatal(err)
	}
	if content, _ := os.ReadFile(s.TokensPath()); strings.Contains(string(content), "home") {
		t.Errorf("the session is still there: %s", content)
	}
	put(t, s.TokensPath(), "{}", 0o644)
	if _, err := s.Token("home"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("sessions that others can read: %v", err)
	}
}

func TestSessionsEndAMomentEarly(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		token   Token
		expires bool
	}{
		{Token{}, false},
		{Token{ExpiresAt: now.Add(time.Minute)}, false},
		{Token{ExpiresAt: now.Add(10 * time.Second)}, true},
		{Token{ExpiresAt: now.Add(-time.Hour)}, true},
	} {
		if test.token.Expires(now) != test.expires {
			t.Errorf("%v: %v", test.token.ExpiresAt, !test.expires)
		}
	}
}

func TestOneWritesAtATime(t *testing.T) {
	s := store(t)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_, err := s.UpdateToken(t.Context(), "home", func(old Token) (Token, error) {
				return Token{AccessToken: old.AccessToken + "x"}, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if token, err := s.Token("home"); err != nil || len(token.AccessToken) != 20 {
		t.Errorf("%d of 20 writes remain (%v)", len(token.AccessToken), err)
	}
}

func TestWaitingForTheLockEnds(t *testing.T) {
	s := store(t)
	err := s.Update(t.Context(), func(*File) error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return s.Update(ctx, func(*File) error { t.Error("two write at once"); return nil })
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func put(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
