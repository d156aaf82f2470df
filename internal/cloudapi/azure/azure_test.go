package azure_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/cloudapi"
	"plasmacloud.io/plasmacloud/internal/cloudapi/azure"
	stub "plasmacloud.io/plasmacloud/test/stub/azure"
)

const zeros = "00000000-0000-0000-0000-000000000000"

// certificate is one with its key, in base64.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	content := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})...)
	return base64.StdEncoding.EncodeToString(content)
}

func TestEntraHandsOutTokens(t *testing.T) {
	entra := stub.New(stub.Config{})
	server := httptest.NewTLSServer(entra)
	defer server.Close()
	principal := func(variable, value string) map[string]string {
		return map[string]string{
			"ARM_METADATA_HOSTNAME": strings.TrimPrefix(server.URL, "https://"), "ARM_TENANT_ID": zeros, "ARM_CLIENT_ID": zeros, variable: value,
			cloudapi.EnvironmentCA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
		}
	}
	credentials := map[string]string{"ARM_CLIENT_SECRET": "secret", "ARM_CLIENT_CERTIFICATE": certificate(t), "ARM_OIDC_TOKEN": "secret"}
	for variable, value := range credentials {
		token, err := azure.Token(t.Context(), principal(variable, value))
		if err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
		if left := time.Until(token.Expires); strings.Count(token.Value, ".") != 2 || left < 30*time.Minute || left > 2*time.Hour {
			t.Errorf("%s: a token for %s: %q", variable, left, token.Value)
		}
	}
	entra.Revoke(true)
	for variable, value := range credentials {
		if _, err := azure.Token(t.Context(), principal(variable, value)); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "401") {
			t.Errorf("%s, revoked: %v", variable, err)
		}
	}
	if unknown := entra.Unknown(); len(unknown) > 0 {
		t.Errorf("the stub does not know %v", unknown)
	}
}

func TestCredentialsThatAreNone(t *testing.T) {
	for want, environment := range map[string]map[string]string{
		"no credentials of a service principal": {"ARM_TENANT_ID": zeros, "ARM_CLIENT_ID": zeros},
		"not base64":                            {"ARM_TENANT_ID": zeros, "ARM_CLIENT_ID": zeros, "ARM_CLIENT_CERTIFICATE": "!"},
		"no PKCS#12":                            {"ARM_TENANT_ID": zeros, "ARM_CLIENT_ID": zeros, "ARM_CLIENT_CERTIFICATE": "c2VjcmV0"},
		"holds no certificate":                  {cloudapi.EnvironmentCA: "secret"},
	} {
		if _, err := azure.Token(t.Context(), environment); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("want %s: %v", want, err)
		}
	}
}
