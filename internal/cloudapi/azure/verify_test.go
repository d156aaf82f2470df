package azure

import (
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/cloudapi"
	stub "plasmacloud.io/plasmacloud/test/stub/azure"
)

const nobody = "00000000-0000-0000-0000-000000000000"

func TestAzureTellsWhatAnAccountMayDo(t *testing.T) {
	cloud := stub.New(stub.Config{})
	server := httptest.NewTLSServer(cloud)
	defer server.Close()
	environment := map[string]string{
		"ARM_METADATA_HOSTNAME": strings.TrimPrefix(server.URL, "https://"), "ARM_TENANT_ID": nobody, "ARM_CLIENT_ID": nobody, "ARM_CLIENT_SECRET": "secret", "ARM_SUBSCRIPTION_ID": nobody,
		cloudapi.EnvironmentCA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	}
	if verdict, err := Verify(t.Context(), environment); err != nil || len(verdict.Missing) > 0 || verdict.Identity != nobody {
		t.Fatalf("%+v, %v", verdict, err)
	}
	cloud.Deny("Microsoft.Authorization/*/write", "Microsoft.Storage/storageAccounts/delete")
	verdict, err := Verify(t.Context(), environment)
	if err != nil || strings.Join(verdict.Missing, " ") != "Microsoft.Authorization/roleAssignments/write Microsoft.Storage/storageAccounts/delete" {
		t.Errorf("%+v, %v", verdict, err)
	}
	cloud.Revoke(true)
	if _, err := Verify(t.Context(), environment); !errors.Is(err, cloudapi.ErrRejected) || strings.Contains(err.Error(), "secret") {
		t.Errorf("revoked: %v", err)
	}
	if unknown := cloud.Unknown(); len(unknown) > 0 {
		t.Errorf("the stub does not know %v", unknown)
	}
}

func TestPatternsOfActions(t *testing.T) {
	for pattern, want := range map[string]bool{
		"*": true, "*/write": true, "microsoft.network/*": true, "microsoft.network/virtualnetworks/write": true, "microsoft.network/*/write": true,
		"*/read": false, "microsoft.compute/*": false, "microsoft.network/virtualnetworks": false, "microsoft.network/*/subnets/*": false,
	} {
		if got := (permission{Actions: []string{pattern}}).allows("Microsoft.Network/virtualNetworks/write"); got != want {
			t.Errorf("%s: %t", pattern, got)
		}
	}
}
