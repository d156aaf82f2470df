package live

import (
	"strings"
	"testing"
)

func TestItRefusesWithoutCredentials(t *testing.T) {
	azure := map[string]string{
		VariableClouds: "azure", "ARM_SUBSCRIPTION_ID": "s", "ARM_TENANT_ID": "t", "ARM_CLIENT_ID": "c", "ARM_CLIENT_SECRET": "hush", "ARM_LOCATION": "westeurope",
	}
	for name, test := range map[string]struct {
		environment map[string]string
		says        string
	}{
		"no cloud":      {nil, "no cloud is named"},
		"another cloud": {map[string]string{VariableClouds: "moon"}, "moon: there is no such cloud"},
		"nothing":       {map[string]string{VariableClouds: "aws, gcp"}, "aws: the environment lacks AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION"},
		"half":          {map[string]string{VariableClouds: "gcp", "GOOGLE_PROJECT": "p", "GOOGLE_REGION": "r"}, "gcp: the environment lacks GOOGLE_APPLICATION_CREDENTIALS"},
		"no key file": {map[string]string{
			VariableClouds: "gcp", "GOOGLE_PROJECT": "p", "GOOGLE_REGION": "r", "GOOGLE_APPLICATION_CREDENTIALS": "/nowhere",
		}, "/nowhere"},
		"all": {azure, ""},
	} {
		products, err := Products(func(variable string) string { return test.environment[variable] })
		if test.says != "" {
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || len(products) != 1 || products[0].Type != "aks" || products[0].Credentials != "hush" || strings.Contains(strings.Join(products[0].Account, " "), "hush") {
			t.Errorf("%s: %v, %v", name, products, err)
		}
	}
}
