package sshkey

import (
	"strings"
	"testing"
)

func TestAKeyIsMadeOnce(t *testing.T) {
	data := map[string][]byte{}
	if err := Ensure(data, "dev"); err != nil {
		t.Fatal(err)
	}
	first := string(data[privateKey])
	if err := Ensure(data, "dev"); err != nil || string(data[privateKey]) != first {
		t.Errorf("it was made anew: %v", err)
	}
	key, err := Current(data)
	if err != nil || key.Authorized() != strings.TrimSpace(string(data[publicKey])) || !strings.HasPrefix(key.Authorized(), "ssh-ed25519 ") {
		t.Errorf("%s: %v", data[publicKey], err)
	}
}

func TestAReplacedKeyIsKeptUntilItIsForgotten(t *testing.T) {
	data := map[string][]byte{}
	if err := Ensure(data, "dev"); err != nil {
		t.Fatal(err)
	}
	old, err := Current(data)
	if err != nil || Replaced(data) {
		t.Fatal(err)
	}
	if err := Replace(data, "dev"); err != nil || !Replaced(data) {
		t.Fatal(err)
	}
	now, err := Current(data)
	if err != nil || now.Authorized() == old.Authorized() {
		t.Errorf("the key is the same: %v", err)
	}
	if previous, err := Previous(data); err != nil || previous.Authorized() != old.Authorized() {
		t.Errorf("the key before is another: %v", err)
	}
	if err := Replace(data, "dev"); err == nil {
		t.Error("a key that machines may still need was dropped")
	}
	Forget(data)
	if _, err := Previous(data); err == nil || Replaced(data) {
		t.Error("the key before is still there")
	}
	if err := Replace(data, "dev"); err != nil {
		t.Error(err)
	}
}
