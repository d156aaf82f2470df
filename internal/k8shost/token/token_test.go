package token

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	bootstraputil "k8s.io/cluster-bootstrap/token/util"
)

var testHash = strings.Repeat("0123456789abcdef", 4)

func TestParseReadsWhatFormatWrites(t *testing.T) {
	full := prefix + testHash + separator
	for text, want := range map[string]Token{
		full + "server:pass":              {caHash: testHash, password: "pass"},
		full + "server:a:b::c.d":          {caHash: testHash, password: "a:b::c.d"},
		full + "abcdef.0123456789abcdef":  {caHash: testHash, id: "abcdef", secret: "0123456789abcdef"},
		"abcdef.0123456789abcdef":         {id: "abcdef", secret: "0123456789abcdef"},
		"mysecret":                        {password: "mysecret"},
		"my:secret.with-signs_ÄÖ":         {password: "my:secret.with-signs_ÄÖ"},
		"abcdef.0123456789ABCDEF":         {password: "abcdef.0123456789ABCDEF"},
		strings.Repeat("x", maxPassword):  {password: strings.Repeat("x", maxPassword)},
		full + "server:" + "K10::server:": {caHash: testHash, password: "K10::server:"},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %#v, %v", text, got, err)
		}
		if got.Format() != text {
			t.Errorf("Format = %q, want %q", got.Format(), text)
		}
	}
}

func TestParseIsLenientWithSpaceAndCase(t *testing.T) {
	got, err := Parse("  K10" + strings.ToUpper(testHash) + "::server:pass\n")
	if err != nil || got.CAHash() != testHash || got.Password() != "pass" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	full := prefix + testHash + separator
	for text, says := range map[string]string{
		"":                                      "it is empty",
		" \n":                                   "it is empty",
		"K10":                                   "cut short: 0 of the 64 characters of the CA's hash",
		"K10" + testHash[:17]:                   "cut short: 17 of the 64 characters of the CA's hash",
		"K10" + testHash[:63] + "::server:pass": "cut short: 63 of the 64",
		"K10" + testHash:                        "cut short: nothing follows the hash",
		"K10" + testHash + ":":                  "cut short: nothing follows the hash",
		full:                                    `cut short: nothing follows "::"`,
		full + "server":                         "cut short: the password is missing",
		full + "server:":                        "the password is empty",
		full + "serv":                           "neither",
		full + "node:pass":                      `the user "node" is unknown`,
		full + ":pass":                          `the user "" is unknown`,
		full + "server:two words":               "white space",
		full + "server:" + strings.Repeat("x", 257): "257 characters",
		full + "abcdef.012":                         "cut short: 3 of the 16 characters of the secret",
		full + "abcdef.0123456789abcdef0":           "the secret has 17 characters",
		full + "abc.0123456789abcdef":               "the id has 3 characters instead of 6",
		full + "ABCDEF.0123456789abcdef":            "a-z and 0-9 only",
		"K10" + testHash + "server:pass":            `separator "::" is missing`,
		"K10" + testHash + ":server:pass":           `separator "::" is missing`,
		"K10" + testHash + "ab::server:pass":        "the CA's hash has 66 characters instead of 64",
		"K10xyz" + testHash[3:] + "::server:pass":   `character 1 of the CA's hash, 'x', is not a hexadecimal digit`,
		"K10my-password":                            `separator "::" is missing`,
		testHash + "::server:pass":                  "its beginning is missing",
		"two words":                                 "white space",
		"a\x00b":                                    "unprintable",
	} {
		_, err := Parse(text)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("Parse(%q): %v, want %q", text, err, says)
		}
		if err != nil && (strings.Contains(err.Error(), "pass:") || strings.Contains(err.Error(), "0123456789abcdef")) {
			t.Errorf("Parse(%q) repeats secrets: %v", text, err)
		}
	}
}

func TestEveryPrefixOfATokenIsRefusedOrAnotherPassword(t *testing.T) {
	text := prefix + testHash + separator + "abcdef.0123456789abcdef"
	for n := len(prefix); n < len(text); n++ {
		if got, err := Parse(text[:n]); err == nil {
			t.Errorf("Parse of the first %d characters = %v", n, got)
		}
	}
}

func TestTokensDoNotShowTheirSecrets(t *testing.T) {
	for _, text := range []string{
		"hidden-password",
		"abcdef.hidden0123456789",
		prefix + testHash + separator + "server:hidden-password",
		prefix + testHash + separator + "abcdef.hidden0123456789",
	} {
		tok, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "token", tok)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "token", &tok)
		fmt.Fprintf(&out, "%v %+v %#v %s %q %v", tok, tok, tok, tok, tok, []Token{tok})
		if strings.Contains(out.String(), "hidden") {
			t.Errorf("%v shows: %s", tok, &out)
		}
	}
}

func TestBootstrapIsDeterministicAndDiffers(t *testing.T) {
	derive := func(tok Token) string {
		t.Helper()
		text, err := tok.Bootstrap()
		if err != nil {
			t.Fatal(err)
		}
		if !bootstraputil.IsValidBootstrapToken(text) {
			t.Errorf("%q is not a bootstrap token", text)
		}
		return text
	}
	base := Token{caHash: testHash, password: "pass"}
	first := derive(base)
	// Written down so that a change of the derivation, which would lock out
	// every node that still has to join, does not go unnoticed.
	if want := "o0qi3g.58mge7mm4ufdw0le"; first != want {
		t.Errorf("derived %q, want %q", first, want)
	}
	if again := derive(base); again != first {
		t.Errorf("derived %q, then %q", first, again)
	}
	other := derive(Token{caHash: testHash, password: "pass2"})
	if other[:idLength] != first[:idLength] || other[idLength:] == first[idLength:] {
		t.Errorf("another password gives %q beside %q", other, first)
	}
	elsewhere := derive(base.WithCA(strings.Repeat("f", hashLength)))
	if elsewhere[:idLength] == first[:idLength] || elsewhere[idLength:] == first[idLength:] {
		t.Errorf("another CA gives %q beside %q", elsewhere, first)
	}
	if got := derive(Token{id: "abcdef", secret: "0123456789abcdef"}); got != "abcdef.0123456789abcdef" {
		t.Errorf("a bootstrap token became %q", got)
	}
	if _, err := (Token{password: "pass"}).Bootstrap(); err == nil {
		t.Error("derived without a CA")
	}
}

func TestSealedDataOpensWithItsPasswordOnly(t *testing.T) {
	plaintext := []byte("the keys of the cluster")
	sealed, err := Seal("pass", plaintext)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, plaintext) {
		t.Error("not encrypted")
	}
	if got, err := Open("pass", sealed); err != nil || !bytes.Equal(got, plaintext) {
		t.Errorf("Open = %q, %v", got, err)
	}
	if _, err := Open("other", sealed); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("with another password: %v", err)
	}
	again, err := Seal("pass", plaintext)
	if err != nil || bytes.Equal(sealed, again) {
		t.Errorf("sealing twice gives the same: %v", err)
	}
	for _, at := range []int{len(sealHeader), len(sealHeader) + saltSize, len(sealed) - 1} {
		changed := bytes.Clone(sealed)
		changed[at] ^= 1
		if _, err := Open("pass", changed); !errors.Is(err, ErrWrongPassword) {
			t.Errorf("byte %d changed: %v", at, err)
		}
	}
	future := bytes.Replace(sealed, []byte("-v1"), []byte("-v2"), 1)
	for _, data := range [][]byte{nil, sealed[:40], []byte("plain"), future} {
		if _, err := Open("pass", data); !errors.Is(err, ErrNotSealed) {
			t.Errorf("Open(%q): %v", data, err)
		}
	}
}

func TestNewPasswordIsLongAndNew(t *testing.T) {
	a, errA := NewPassword()
	b, errB := NewPassword()
	if errA != nil || errB != nil || len(a) != 32 || a == b {
		t.Errorf("%q, %v; %q, %v", a, errA, b, errB)
	}
	if tok, err := Parse(a); err != nil || !tok.JoinsServers() {
		t.Errorf("Parse(NewPassword()) = %v, %v", tok, err)
	}
}

func TestDerivationIsSlowButNotTooSlow(t *testing.T) {
	begin := time.Now()
	if _, err := sealingKey("pass", make([]byte, saltSize)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 10*time.Millisecond {
		t.Errorf("a guess takes %v only", took)
	}
}
