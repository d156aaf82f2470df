//go:build e2e

package multinode

import (
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

func (s *scenario) identities(t *testing.T) {
	for _, agent := range []*lab.Node{s.near, s.far} {
		if _, err := os.Stat(agent.Data.Path("server")); err == nil {
			t.Errorf("%s has a server's directory", agent.Name)
		}
		subjects := map[string]bool{}
		for _, certificate := range s.certificates(t, agent) {
			subjects[certificate.Subject.String()] = true
			if slices.Contains(certificate.Subject.Organization, "system:masters") {
				t.Errorf("%s holds an administrator's certificate: %s", agent.Name, certificate.Subject)
			}
		}
		if want := "CN=system:node:" + agent.Name + ",O=system:nodes"; !subjects[want] {
			t.Errorf("%s holds no certificate of %s, but of %v", agent.Name, want, subjects)
		}
		s.permissions(t, agent)
	}
}

// permissions asks the cluster what it thinks of the agent's kubelet.
func (s *scenario) permissions(t *testing.T, agent *lab.Node) {
	kubeconfig := filepath.Join(agent.Data.AgentPKI(), "kubelet.kubeconfig")
	who, err := agent.KubectlAs(kubeconfig, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
	if err != nil || who != "system:node:"+agent.Name {
		t.Errorf("the kubelet of %s is known as %q: %v", agent.Name, who, err)
	}
	for _, forbidden := range [][]string{
		{"get", "secrets", "-A"},
		{"delete", "node", s.server.Name},
		{"label", "node", agent.Name, "node-role.kubernetes.io/control-plane=true"},
		{"create", "clusterrolebinding", "me", "--clusterrole=cluster-admin", "--user=" + who},
	} {
		if output, err := agent.KubectlAs(kubeconfig, forbidden...); err == nil || !strings.Contains(output, "orbidden") {
			t.Errorf("the kubelet of %s may %v: %s", agent.Name, forbidden, output)
		}
	}
}

// certificates collects all certificates in the node's data directory, in files and in kubeconfigs.
func (s *scenario) certificates(t *testing.T, node *lab.Node) []*x509.Certificate {
	t.Helper()
	var found []*x509.Certificate
	add := func(content []byte) {
		for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != "CERTIFICATE" {
				continue
			}
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, certificate)
		}
	}
	err := filepath.WalkDir(node.Data.Path(), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == node.Data.Containerd() || path == node.Data.Kubelet(): // images and pods
			return fs.SkipDir
		case !entry.Type().IsRegular() || filepath.Ext(path) == ".tar":
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		add(content)
		if config, err := clientcmd.Load(content); err == nil {
			for _, user := range config.AuthInfos {
				add(user.ClientCertificateData)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
