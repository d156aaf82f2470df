package kubeadm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
)

// invitation is how long a control-plane machine has to join with a token.
const invitation = 30 * time.Minute

// Init implements hostsetup.Distribution.
func (d *Distribution) Init(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster) (hostsetup.Credentials, error) {
	done, _, err := d.look(ctx, host, stepInit)
	if err != nil {
		return hostsetup.Credentials{}, err
	}
	if done == "" {
		config, err := bootstrap.KubeadmInit(describe(cluster), node(host), newToken(), "")
		if err != nil {
			return hostsetup.Credentials{}, err
		}
		if err := d.run(ctx, host, stepInit, config, nil, "init", "--skip-token-print"); err != nil {
			return hostsetup.Credentials{}, err
		}
	}
	credentials, err := d.credentials(ctx, host)
	if err != nil {
		return hostsetup.Credentials{}, err
	}
	return credentials, d.finish(ctx, host, stepInit, credentials.CA, done != "")
}

// credentials are those that kubeadm has made.
func (d *Distribution) credentials(ctx context.Context, host hostsetup.Host) (hostsetup.Credentials, error) {
	var found hostsetup.Credentials
	for _, kubeconfig := range []struct {
		name      string
		cert, key *[]byte
	}{
		{"admin.conf", &found.AdminCert, &found.AdminKey}, {"super-admin.conf", &found.SuperAdminCert, &found.SuperAdminKey},
	} {
		content, err := host.Client.Download(ctx, stepInit, kubernetesDir+"/"+kubeconfig.name, 1<<20)
		if err != nil {
			return hostsetup.Credentials{}, err
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(content)
		if err != nil {
			return hostsetup.Credentials{}, fmt.Errorf("host %s: %s: read %s: %w", host, stepInit, kubeconfig.name, err)
		}
		*kubeconfig.cert, *kubeconfig.key, found.CA = config.CertData, config.KeyData, config.CAData
	}
	return found, nil
}

// tokenSecret is a bootstrap token as the cluster keeps it, for a machine that joins the control plane at once.
func tokenSecret(id, secret string, now time.Time) ([]byte, error) {
	content, err := yaml.Marshal(corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstrapapi.BootstrapTokenSecretPrefix + id},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		StringData: map[string]string{
			bootstrapapi.BootstrapTokenIDKey:               id,
			bootstrapapi.BootstrapTokenSecretKey:           secret,
			bootstrapapi.BootstrapTokenExpirationKey:       now.Add(invitation).UTC().Format(time.RFC3339),
			bootstrapapi.BootstrapTokenUsageAuthentication: "true",
			bootstrapapi.BootstrapTokenExtraGroupsKey:      "system:bootstrappers:kubeadm:default-node-token",
			bootstrapapi.BootstrapTokenDescriptionKey:      "for a control-plane machine that joins",
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make bootstrap token: %w", err)
	}
	return content, nil
}
