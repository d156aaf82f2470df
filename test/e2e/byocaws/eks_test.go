//go:build e2e

package byocaws

import (
	"encoding/base64"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/testapi"
	stubaws "plasmacloud.io/plasmacloud/test/stub/aws"
)

// serveEKS runs the API server that answers for EKS, reached at the node's address, and returns where it is and who has
// signed its certificate.
func (s *scenario) serveEKS(t *testing.T) (endpoint, ca string) {
	t.Helper()
	authenticator := httptest.NewTLSServer(stubaws.Authenticator{
		Cluster: func() string { return strings.Join(s.stub.Names("clusters"), ",") },
		STS:     func() string { return s.url },
		Client:  &http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}},
	})
	t.Cleanup(authenticator.Close)
	webhook := api.NewConfig()
	webhook.Clusters["aws"] = &api.Cluster{
		Server: authenticator.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authenticator.Certificate().Raw}),
	}
	webhook.AuthInfos["apiserver"] = &api.AuthInfo{}
	webhook.Contexts["webhook"] = &api.Context{Cluster: "aws", AuthInfo: "apiserver"}
	webhook.CurrentContext = "webhook"
	file := filepath.Join(t.TempDir(), "webhook.yaml")
	if err := clientcmd.WriteToFile(*webhook, file); err != nil {
		t.Fatal(err)
	}
	s.eks = testapi.New(t, testapi.Options{WithoutCRDs: true, Names: []string{s.IP}, APIServerArgs: []string{
		"--authentication-token-webhook-config-file=" + file, "--authentication-token-webhook-version=v1", "--authentication-token-webhook-cache-ttl=1s",
	}})
	listener := s.Product.Listen(t)
	t.Cleanup(func() { _ = listener.Close() })
	go forward(listener, strings.TrimPrefix(s.eks.URL(), "https://"))
	content, err := os.ReadFile(s.eks.PKI().CAPath(pki.ClusterCA))
	if err != nil {
		t.Fatal(err)
	}
	return "https://" + listener.Addr().String(), base64.StdEncoding.EncodeToString(content)
}

// forward leads from the node to where tests run.
func forward(listener net.Listener, address string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return // it was closed
		}
		go func() {
			defer func() { _ = from.Close() }()
			to, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			defer func() { _ = to.Close() }()
			done := make(chan struct{}, 2)
			for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
				go func() {
					_, _ = io.Copy(way[0], way[1]) // until one of them ends
					done <- struct{}{}
				}()
			}
			<-done
		}()
	}
}
