package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"net"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func requestPEM(t *testing.T, commonName, organization string, dnsNames []string, ips ...string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: commonName, Organization: []string{organization}}, DNSNames: dnsNames,
	}
	for _, ip := range ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestApproverApprovesNodesAndNobodyElse(t *testing.T) {
	const serving, client = certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientSignerName
	nodes, bootstrap := []string{"system:nodes", "system:authenticated"}, []string{"system:bootstrappers:k8shost:agent"}
	clientUsages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	for name, test := range map[string]struct {
		signer, user string
		groups       []string
		request      []byte
		usages       []certificatesv1.KeyUsage
		approved     bool
	}{
		"a node's serving certificate": {serving, "system:node:n1", nodes, requestPEM(t, "system:node:n1", "system:nodes", []string{"n1"}, "10.0.0.1"), nil, true},
		"another node's address":       {serving, "system:node:n1", nodes, requestPEM(t, "system:node:n1", "system:nodes", nil, "10.0.0.2"), nil, false},
		"another node's name":          {serving, "system:node:n1", nodes, requestPEM(t, "system:node:n2", "system:nodes", nil, "10.0.0.1"), nil, false},
		"a user who is no node":        {serving, "mallory", []string{"system:authenticated"}, requestPEM(t, "system:node:n1", "system:nodes", nil, "10.0.0.1"), nil, false},
		"a joining node's proxies":     {client, "system:bootstrap:abc", bootstrap, requestPEM(t, "system:node-proxy:n9", "k8shost:node-proxies", nil), clientUsages, true},
		"a node's own proxies":         {client, "system:node:n1", nodes, requestPEM(t, "system:node-proxy:n1", "k8shost:node-proxies", nil), clientUsages, true},
		"proxies' renewal":             {client, "system:node-proxy:n1", []string{"k8shost:node-proxies"}, requestPEM(t, "system:node-proxy:n1", "k8shost:node-proxies", nil), clientUsages, true},
		"another node's proxies":       {client, "system:node:n1", nodes, requestPEM(t, "system:node-proxy:n2", "k8shost:node-proxies", nil), clientUsages, false},
		"proxies with a server's use":  {client, "system:node:n1", nodes, requestPEM(t, "system:node-proxy:n1", "k8shost:node-proxies", nil), append(clientUsages, certificatesv1.UsageServerAuth), false},
		"an administrator":             {client, "system:bootstrap:abc", bootstrap, requestPEM(t, "admin", "system:masters", nil), clientUsages, false},
		"rubbish":                      {client, "system:node:n1", nodes, []byte("rubbish"), clientUsages, false},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientset(
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
					{Type: corev1.NodeHostName, Address: "n1"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"},
				}}},
				&certificatesv1.CertificateSigningRequest{
					ObjectMeta: metav1.ObjectMeta{Name: "csr"},
					Spec: certificatesv1.CertificateSigningRequestSpec{
						SignerName: test.signer, Username: test.user, Groups: test.groups, Request: test.request, Usages: test.usages,
					},
				})
			_ = NewApprover(api, slog.New(slog.DiscardHandler)).decide(t.Context(), "csr")
			got, err := api.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "csr", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if approved := len(got.Status.Conditions) == 1; approved != test.approved {
				t.Fatalf("approved = %v, want %v", approved, test.approved)
			}
		})
	}
}
