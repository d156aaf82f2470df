package pki

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func added(t *testing.T, e Encryption) Encryption {
	t.Helper()
	e, err := e.Add()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRotationOfTheKeyForSecrets(t *testing.T) {
	s, _ := newStore(t)
	path := s.EncryptionConfigPath()
	first := encryptionKeys(t, path)[0]
	e, err := ReadEncryption(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		do    func(Encryption) Encryption
		names string
		stage Stage
	}{
		{func(e Encryption) Encryption { return e }, "key1", Settled},
		{func(e Encryption) Encryption { return added(t, e) }, "key1 key2", Adding},
		{Encryption.Promote, "key2 key1", Rewriting},
		{Encryption.Promote, "key2 key1", Rewriting},
		{Encryption.Settle, "key2", Settled},
		{func(e Encryption) Encryption { return added(t, added(t, e)) }, "key2 key3 key4", Adding},
		{Encryption.Promote, "key4 key2 key3", Rewriting},
	} {
		e = step.do(e)
		if e.String() != step.names || e.Stage() != step.stage {
			t.Fatalf("step %d: keys are %s, stage %s; want %s, %s", i, e, e.Stage(), step.names, step.stage)
		}
		if err := WriteEncryption(path, e); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil || e.Hash() != fmt.Sprintf("sha256:%x", sha256.Sum256(data)) {
			t.Errorf("step %d: the hash is not the file's: %v", i, err)
		}
		stored := encryptionKeys(t, path)
		if again, err := ReadEncryption(path); err != nil || again.Hash() != e.Hash() || len(stored) != len(e.keys) {
			t.Fatalf("step %d: read %s, %v", i, again, err)
		}
		if i < 4 && stored[len(stored)-1].Secret != first.Secret && stored[0].Secret != first.Secret {
			t.Errorf("step %d: the first key is lost", i)
		}
	}
	assertMode(t, path, 0o600)
	before := snapshot(t, s.Dir())
	ensure(t, s, testServer().Leaves())
	sameFiles(t, before, snapshot(t, s.Dir()))
	for _, text := range []string{fmt.Sprint(e), fmt.Sprintf("%v %+v %#v", e, e, e)} {
		if strings.Contains(text, e.keys[0].Secret) {
			t.Error("a key is printed")
		}
	}
}

func TestEncryptionKeysOfOtherFiles(t *testing.T) {
	s, _ := newStore(t)
	if _, err := ReadEncryption(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file was read")
	}
	key, err := os.ReadFile(s.KeyPath("ca"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = ReadEncryption(s.KeyPath("ca"))
	if err == nil || strings.Contains(err.Error(), strings.Split(string(key), "\n")[1]) {
		t.Errorf("got %v", err)
	}
	data, err := os.ReadFile(s.EncryptionConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	// What is encrypted besides Secrets would be lost with the old key.
	wider := strings.Replace(string(data), "  - secrets", "  - secrets\n  - configmaps", 1)
	overwrite(t, s.EncryptionConfigPath(), wider)
	if _, err := ReadEncryption(s.EncryptionConfigPath()); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("got %v", err)
	}
}

func TestServersAdoptTheKeysOfTheCluster(t *testing.T) {
	one := added(t, Encryption{})
	two := added(t, one)
	for name, test := range map[string]struct {
		own, cluster Encryption
		want         string
	}{
		"the same":               {one, one, "key1"},
		"a new key":              {one, two, "key1 key2"},
		"it writes":              {two, two.Promote(), "key2 key1"},
		"the old one goes":       {two.Promote(), two.Promote().Settle(), "key2"},
		"after a long absence":   {one, two.Promote().Settle(), "key2"},
		"an older snapshot":      {two.Promote().Settle(), one, "key1 key2"},
		"somebody's own is kept": {Encryption{append(one.keys[:1:1], encryptionKey{Name: "mine", Secret: one.keys[0].Secret})}, two, "key1 key2 mine"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newStore(t)
			if err := WriteEncryption(s.EncryptionConfigPath(), test.own); err != nil {
				t.Fatal(err)
			}
			bundle, err := ReadBundle(s.Dir())
			if err != nil {
				t.Fatal(err)
			}
			if bundle, err = bundle.WithEncryption(test.cluster); err != nil {
				t.Fatal(err)
			}
			for _, want := range []bool{test.own.Hash() != test.own.Merge(test.cluster).Hash(), false} {
				if changed, err := AdoptEncryption(s.Dir(), bundle); err != nil || changed != want {
					t.Errorf("changed %v, want %v: %v", changed, want, err)
				}
			}
			if got, err := ReadEncryption(s.EncryptionConfigPath()); err != nil || got.String() != test.want {
				t.Errorf("keys are %s (%v), want %s", got, err, test.want)
			}
		})
	}
}
