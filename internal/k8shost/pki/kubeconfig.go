package pki

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
)

// KubeconfigName is the name of the cluster, the context and the prefix of the
// user in the kubeconfigs written here.
const KubeconfigName = "k8shost"

// Kubeconfig makes the named leaf certificate a kubeconfig for the API server at
// url. It refers to the files, which clients read again when they are renewed.
func (s *Store) Kubeconfig(leaf, url string) *clientcmdapi.Config {
	return kubeconfig(leaf,
		&clientcmdapi.Cluster{Server: url, CertificateAuthority: s.CAPath(ClusterCA)},
		&clientcmdapi.AuthInfo{ClientCertificate: s.CertPath(leaf), ClientKey: s.KeyPath(leaf)})
}

// EmbeddedKubeconfig is a Kubeconfig that holds the certificate and its key: it
// can be copied elsewhere, and has to be written again after a renewal.
func (s *Store) EmbeddedKubeconfig(leaf, url string) (*clientcmdapi.Config, error) {
	var contents [3][]byte
	for i, path := range []string{s.CAPath(ClusterCA), s.CertPath(leaf), s.KeyPath(leaf)} {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("make kubeconfig: %w", err)
		}
		contents[i] = data
	}
	return kubeconfig(leaf,
		&clientcmdapi.Cluster{Server: url, CertificateAuthorityData: contents[0]},
		&clientcmdapi.AuthInfo{ClientCertificateData: contents[1], ClientKeyData: contents[2]}), nil
}

func kubeconfig(user string, cluster *clientcmdapi.Cluster, auth *clientcmdapi.AuthInfo) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters[KubeconfigName] = cluster
	config.AuthInfos[user] = auth
	config.Contexts[KubeconfigName] = &clientcmdapi.Context{Cluster: KubeconfigName, AuthInfo: user}
	config.CurrentContext = KubeconfigName
	return config
}

// WriteKubeconfig writes the kubeconfig for its owner alone, and only if it
// changes: programs watch these files.
func WriteKubeconfig(path string, config *clientcmdapi.Config) (changed bool, err error) {
	data, err := clientcmd.Write(*config)
	if err != nil {
		return false, fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return false, fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return atomicfile.WriteChanged(path, data, secretMode)
}
