package azure_test

import (
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/cloudapi"
	"plasmacloud.io/plasmacloud/internal/cloudapi/azure"
	stub "plasmacloud.io/plasmacloud/test/stub/azure"
)

const zeros = "00000000-0000-0000-0000-000000000000"

func TestEntraHandsOutTokens(t *testing.T) {
	entra := stub.New(stub.Config{})
	server := httptest.NewTLSServer(entra)
	defer server.Close()
	environment := map[string]string{
		"ARM_METADATA_HOSTNAME": strings.TrimPrefix(server.URL, "https://"), "ARM_TENANT_ID": zeros, "ARM_CLIENT_ID": zeros, "ARM_CLIENT_SECRET": "secret",
		cloudapi.EnvironmentCA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	}
	token, err := azure.Token(t.Context(), environment)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(token.Expires); strings.Count(token.Value, ".") != 2 || left < 30*time.Minute || left > 2*time.Hour {
		t.Errorf("a token for %s: %q", left, token.Value)
	}
	entra.Revoke(true)
	environment["ARM_CLIENT_ID"] = "11111111-0000-0000-0000-000000000000" // of whom no token is remembered
	if _, err := azure.Token(t.Context(), environment); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "401") {
		t.Errorf("revoked: %v", err)
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
