package deployer

import (
	"os"
	"path/filepath"
	"testing"

	"plasmacloud.io/plasmacloud/internal/cloudapi"
)

func TestFurtherAuthoritiesAreTrusted(t *testing.T) {
	d := &deployment{Config: Config{Work: filepath.Join(t.TempDir(), "work"), Stack: "shop.network.main"}}
	environment := map[string]string{cloudapi.EnvironmentCA: "PEM", "OTHER": "x"}
	if err := d.trust(environment); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(environment["SSL_CERT_FILE"])
	if err != nil || string(content) != "PEM" || environment[cloudapi.EnvironmentCA] != "" || environment["OTHER"] != "x" {
		t.Errorf("%q, %v, %v", content, environment, err)
	}
	environment = map[string]string{"SSL_CERT_FILE": "/own.pem"}
	if err := d.trust(environment); err != nil || environment["SSL_CERT_FILE"] != "/own.pem" {
		t.Errorf("without any: %v, %v", environment, err)
	}
}

func TestTheWayToThePlatformLeadsThroughNoProxy(t *testing.T) {
	d := &deployment{Config: Config{Server: "https://deployments.platform.svc:443"}}
	environment := map[string]string{"HTTPS_PROXY": "http://proxy", "NO_PROXY": "localhost"}
	d.goDirect(environment)
	if environment["NO_PROXY"] != "localhost,deployments.platform.svc" || environment["no_proxy"] != "deployments.platform.svc" {
		t.Errorf("%v", environment)
	}
}
