package k3s

import (
	"errors"

	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
)

// readKubeconfig takes the credentials out of the administrator's kubeconfig. There is one administrator, who is above
// RBAC.
func readKubeconfig(content []byte) (hostsetup.Credentials, error) {
	config, err := clientcmd.Load(content)
	if err != nil {
		return hostsetup.Credentials{}, err
	}
	chosen := config.Contexts[config.CurrentContext]
	if chosen == nil {
		return hostsetup.Credentials{}, errors.New("it has no current context")
	}
	cluster, user := config.Clusters[chosen.Cluster], config.AuthInfos[chosen.AuthInfo]
	if cluster == nil || user == nil || len(cluster.CertificateAuthorityData) == 0 || len(user.ClientCertificateData) == 0 || len(user.ClientKeyData) == 0 {
		return hostsetup.Credentials{}, errors.New("it lacks an authority, a certificate or a key")
	}
	return hostsetup.Credentials{
		CA:        cluster.CertificateAuthorityData,
		AdminCert: user.ClientCertificateData, AdminKey: user.ClientKeyData,
		SuperAdminCert: user.ClientCertificateData, SuperAdminKey: user.ClientKeyData,
	}, nil
}
