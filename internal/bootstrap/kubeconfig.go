package bootstrap

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Credentials are a certificate and its key, in PEM.
type Credentials struct{ Cert, Key []byte }

// String keeps the key out of logs.
func (Credentials) String() string { return "certificate and key (redacted)" }

// GoString keeps it out of %#v as well.
func (c Credentials) GoString() string { return c.String() }

// Kubeconfig is a user's access to a cluster, complete in itself.
type Kubeconfig struct {
	// Cluster and User are what people see: the names of the context's parts.
	Cluster, User string
	Server        string // URL
	CA            []byte // PEM
	Credentials   Credentials
}

// Render returns the file.
func (k Kubeconfig) Render() ([]byte, error) {
	config := clientcmdapi.NewConfig()
	user := k.Cluster + "-" + k.User
	config.Clusters[k.Cluster] = &clientcmdapi.Cluster{Server: k.Server, CertificateAuthorityData: k.CA}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: k.Credentials.Cert, ClientKeyData: k.Credentials.Key}
	config.Contexts[k.Cluster] = &clientcmdapi.Context{Cluster: k.Cluster, AuthInfo: user}
	config.CurrentContext = k.Cluster
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("render kubeconfig of %s: %w", user, err)
	}
	return content, nil
}
