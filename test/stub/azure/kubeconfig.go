package azure

import (
	"encoding/base64"
	"fmt"
)

// kubeconfig is what AKS hands out for a user whom the directory knows: the address, and a program that gets the token.
func (s *Server) kubeconfig() string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: stub
  cluster: {server: "https://%s:443", certificate-authority-data: %s}
contexts:
- name: stub
  context: {cluster: stub, user: stub}
current-context: stub
users:
- name: stub
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: kubelogin, args: [get-token]}
`, s.config.Endpoint, s.config.CA))
}
