package webhook

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func config() Config {
	return Config{
		URL: "https://iam-server:3000", CA: "/etc/k8shost/ca.crt",
		Certificate: "/etc/k8shost/apiserver-client.crt", Key: "/etc/k8shost/apiserver-client.key",
	}
}

// specified is the file as the specification shows it.
const specified = `
apiVersion: v1
kind: Config
clusters:
- name: iam-webhook
  cluster:
    server: https://iam-server:3000/apis/iam.plasmacloud.io/v1/authenticate
    certificate-authority: /etc/k8shost/ca.crt
users:
- name: k8s-apiserver
  user:
    client-certificate: /etc/k8shost/apiserver-client.crt
    client-key: /etc/k8shost/apiserver-client.key
current-context: webhook
contexts:
- context:
    cluster: iam-webhook
    user: k8s-apiserver
  name: webhook
`

func TestFileIsThatOfTheSpecification(t *testing.T) {
	data, err := config().Render()
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if err := yaml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(specified), &want); err != nil {
		t.Fatal(err)
	}
	for key := range want {
		a, _ := yaml.Marshal(got[key])
		b, _ := yaml.Marshal(want[key])
		if string(a) != string(b) {
			t.Errorf("%s is\n%swant\n%s", key, a, b)
		}
	}
}

func TestServerName(t *testing.T) {
	c := config()
	c.URL, c.ServerName = "https://10.43.0.20:3000/", "iam-server"
	data, err := c.Render()
	if err != nil || !strings.Contains(string(data), "tls-server-name: iam-server") || !strings.Contains(string(data), "https://10.43.0.20:3000/apis/iam") {
		t.Errorf("%s %v", data, err)
	}
}

func TestWhatCannotBeRendered(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no TLS":  func(c *Config) { c.URL = "http://iam-server:3000" },
		"no host": func(c *Config) { c.URL = "https://" },
		"a path":  func(c *Config) { c.URL = "https://iam-server/x" },
		"no CA":   func(c *Config) { c.CA = "" },
		"no key":  func(c *Config) { c.Key = "" },
	} {
		c := config()
		change(&c)
		if _, err := c.Render(); err == nil {
			t.Errorf("%s was rendered", name)
		}
	}
}

func TestOfflineConfigurationNamesTheIssuer(t *testing.T) {
	data, err := Offline{Issuer: "https://iam-server:3000", CA: []byte("PEM"), Audiences: []string{"web-cluster", "plasmacloud"}}.Render()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind: AuthenticationConfiguration", "url: https://iam-server:3000", "- web-cluster", "audienceMatchPolicy: MatchAny", "certificateAuthority: PEM"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%q is missing:\n%s", want, data)
		}
	}
}
