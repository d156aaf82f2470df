package hosted

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/iam/webhook"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

// Files of the control plane that are not the PKI's.
const (
	auditPolicyFile    = "audit-policy.yaml"
	egressSelectorFile = "egress-selector.yaml"
	identityCAFile     = "iam-ca.crt"
	identityCertFile   = "iam-client.crt"
	identityKeyFile    = "iam-client.key"

	controllerManagerKubeconfig = "controller-manager.kubeconfig"
	schedulerKubeconfig         = "scheduler.kubeconfig"
	konnectivityKubeconfig      = "konnectivity.kubeconfig"
)

// layout is where the control plane's containers find their files.
type layout struct{ *pki.Store }

func (b *build) layout() layout { return layout{pki.New("/etc/kubernetes/pki", b.Clock)} }

func (l layout) path(name string) string { return path.Join(l.Dir(), name) }

// controlPlaneFiles are all files of the control plane. Each container sees some of them: see filesOf.
func (b *build) controlPlaneFiles(ctx context.Context, e base.Endpoint) (files, issued map[string][]byte, err error) {
	leaves, err := b.leaves(e)
	if err != nil {
		return nil, nil, err
	}
	if issued, err = b.issue(ctx, leaves); err != nil {
		return nil, nil, err
	}
	kept, err := b.Secret(ctx, pkiSecretName)
	if err != nil {
		return nil, nil, err
	}
	files = maps.Clone(issued)
	// The bundle is a copy: no container sees it.
	for _, name := range []string{bundleKey, etcdFile, etcdCAFile, etcdCertFile, etcdKeyFile} {
		files[name] = kept.Data[name]
	}
	files[auditPolicyFile] = bootstrap.AuditPolicy()
	if files[egressSelectorFile], err = bootstrap.EgressSelector(tunnelSocket); err != nil {
		return nil, nil, err
	}
	local := e.At("127.0.0.1")
	for name, leaf := range map[string]string{
		controllerManagerKubeconfig: pki.ControllerManager, schedulerKubeconfig: pki.Scheduler, konnectivityKubeconfig: bootstrap.KonnectivityClient,
	} {
		if files[name], err = clientcmd.Write(*b.layout().Kubeconfig(leaf, local)); err != nil {
			return nil, nil, err
		}
	}
	return files, issued, b.addIdentity(ctx, files)
}

// addIdentity adds what the API server needs to ask whose a token is.
func (b *build) addIdentity(ctx context.Context, files map[string][]byte) error {
	if b.Identities == nil {
		return nil
	}
	home, err := b.Client.CoreV1().Namespaces().Get(ctx, b.Cluster.Namespace, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("find the cluster's organization: %w", err)
	}
	secret, err := b.Identities.Ensure(ctx, authority.Client{
		Name: b.identityName(), Organization: home.Labels[v1alpha1.LabelOrganization], Project: b.Project(),
	})
	if err != nil {
		return fmt.Errorf("certify the API server to the identity service: %w", err)
	}
	files[identityCAFile], files[identityCertFile], files[identityKeyFile] = secret.Data["ca.crt"], secret.Data["tls.crt"], secret.Data["tls.key"]
	l := b.layout()
	files[webhook.FileName], err = webhook.Config{
		URL: b.IdentityURL, CA: l.path(identityCAFile), Certificate: l.path(identityCertFile), Key: l.path(identityKeyFile),
	}.Render()
	return err
}

// filesOf are the names of the files that a container sees: those it needs, and no other's keys.
func filesOf(container string) []string {
	pair := func(name string) []string { return []string{name + ".crt", name + ".key"} }
	ca := "ca.crt"
	switch container {
	case containerAPIServer:
		return slices.Concat(
			[]string{ca, "front-proxy-ca.crt", "sa.key", "sa.pub", "encryption-config.yaml", auditPolicyFile, egressSelectorFile},
			pair(pki.APIServer), pair(pki.APIServerKubeletClient), pair(pki.FrontProxyClient),
			[]string{etcdCAFile, etcdCertFile, etcdKeyFile, identityCAFile, identityCertFile, identityKeyFile, webhook.FileName},
		)
	case containerControllerManager:
		return append(pair(pki.ControllerManager), ca, "ca.key", "front-proxy-ca.crt", "sa.key", controllerManagerKubeconfig)
	case containerScheduler:
		return append(pair(pki.Scheduler), ca, schedulerKubeconfig)
	default:
		return slices.Concat(pair(bootstrap.KonnectivityTunnel), pair(bootstrap.KonnectivityClient), []string{ca, konnectivityKubeconfig})
	}
}

// fingerprint changes whenever a file does.
func fingerprint(files map[string][]byte) string {
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, part := range [][]byte{[]byte(name), files[name]} {
			_ = binary.Write(hash, binary.BigEndian, uint64(len(part))) // a hash takes everything
			_, _ = hash.Write(part)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))[:32]
}

// kubeconfigs are the administrators'.
func (b *build) kubeconfigs(e base.Endpoint, issued map[string][]byte) (map[string][]byte, error) {
	credentials := func(name string) bootstrap.Credentials {
		return bootstrap.Credentials{Cert: issued[name+".crt"], Key: issued[name+".key"]}
	}
	return b.Kubeconfigs(e, base.Administrators{
		CA: issued["ca.crt"], AdminName: pki.Admin, Admin: credentials(pki.Admin),
		SuperAdminName: bootstrap.SuperAdmin, SuperAdmin: credentials(bootstrap.SuperAdmin),
	})
}
