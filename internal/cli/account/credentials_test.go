package account

import (
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func TestCredentialsOfClouds(t *testing.T) {
	for name, test := range map[string]struct {
		provider v1alpha1.Provider
		content  string
		keys     []string
		says     string
	}{
		"key of Google Cloud":   {v1alpha1.ProviderGCP, `{"type": "service_account"}`, []string{"credentials.json"}, ""},
		"token of Google Cloud": {v1alpha1.ProviderGCP, "ya29.abc", []string{"access_token"}, ""},
		"a broken key":          {v1alpha1.ProviderGCP, `{"private_key": "hush`, nil, "no key file"},
		"keys of AWS":           {v1alpha1.ProviderAWS, "[default]\naws_access_key_id = A\naws_secret_access_key=B\n", []string{"aws_access_key_id", "aws_secret_access_key"}, ""},
		"half of them":          {v1alpha1.ProviderAWS, "aws_secret_access_key = hush", nil, "it lacks"},
		"two profiles":          {v1alpha1.ProviderAWS, "[a]\naws_secret_access_key = hush\n[b]\naws_secret_access_key = hush", nil, "several profiles"},
		"secret of Azure":       {v1alpha1.ProviderAzure, "hush", []string{"client_secret"}, ""},
		"nothing":               {v1alpha1.ProviderGCP, "", nil, "it is empty"},
		"no cloud":              {v1alpha1.ProviderSSH, "hush", nil, "give --provider"},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := parseCredentials(test.provider, []byte(test.content))
			if test.says != "" {
				if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "hush") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || len(data) != len(test.keys) {
				t.Fatalf("%v, %v", data, err)
			}
			for _, key := range test.keys {
				if len(data[key]) == 0 {
					t.Errorf("no %s", key)
				}
			}
		})
	}
}
