package install

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/cli/platform"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/iam/store"
	"plasmacloud.io/plasmacloud/internal/iam/webhook"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

const (
	// iamNumber is which of the cluster's service addresses the identity service has where the cluster is ours: the API
	// server asks it, which knows no names of the cluster, and is told where it is before there is a cluster.
	iamNumber = 20
	// webhookTTL is for how long the API server remembers what the identity service said. It delays revocation.
	webhookTTL = "2s"
)

// Files of the platform, beside those of k8shost or in a directory of the user.
const (
	platformDir        = "platform"
	authorityDir       = "tls"
	authenticationFile = "authentication.yaml"
	caFile             = "ca.crt"
)

// managementLeaf is the certificate that the management API server shows to the identity service.
func managementLeaf() pki.Leaf { return authority.Client{Name: authority.ManagementClient}.Leaf() }

func (in *installation) authorityFiles() *pki.Store {
	return pki.New(filepath.Join(in.files, authorityDir), clock.RealClock{})
}

func (in *installation) webhookFile() string { return filepath.Join(in.files, webhook.FileName) }

// prepareWebhook writes what makes the API server ask the identity service, with an authority that is made now: the API
// server is started with it. It tells whether anything differs from what a running one has read.
func (in *installation) prepareWebhook() (changed bool, err error) {
	files, leaf := in.authorityFiles(), managementLeaf()
	if _, err := files.Ensure([]pki.Leaf{leaf}); err != nil {
		return false, fmt.Errorf("make the platform's authority: %w", err)
	}
	address, err := plannedAddress(in.target.DataDir)
	if err != nil {
		return false, err
	}
	content, err := webhook.Config{
		URL: iamURL(address), CA: files.CAPath(pki.ClusterCA), Certificate: files.CertPath(leaf.Name), Key: files.KeyPath(leaf.Name),
	}.Render()
	if err != nil {
		return false, err
	}
	return atomicfile.WriteChanged(in.webhookFile(), content, 0o600)
}

// plannedAddress is the address that the identity service is going to have, by what k8shost takes its settings from.
func plannedAddress(dataDir string) (netip.Addr, error) {
	settings, flags := &config.Server{}, pflag.NewFlagSet("k8shost", pflag.ContinueOnError)
	settings.AddFlags(flags)
	if err := flags.Set("data-dir", dataDir); err != nil {
		return netip.Addr{}, err
	}
	if err := config.Load(flags, os.Environ()); err != nil {
		return netip.Addr{}, fmt.Errorf("read k8shost's settings: %w", err)
	}
	return after(settings.ServiceCIDR.Masked().Addr(), iamNumber), nil
}

func after(address netip.Addr, n int) netip.Addr {
	for range n {
		address = address.Next()
	}
	return address
}

func iamURL(address netip.Addr) string {
	return "https://" + netip.AddrPortFrom(address, 443).String()
}

func (in *installation) authority() *authority.Authority {
	record := store.NewRecord(in.kube, Namespace, authority.SecretName, store.KindAuthority)
	return authority.New(record, "", clock.RealClock{}, slog.New(slog.DiscardHandler))
}

// shareAuthority gives the daemon the authority that the API server trusts. Where the daemon had one of its own before,
// certificates that it signed are in use, so that one stays, and the API server is told of it.
func (in *installation) shareAuthority(ctx context.Context, _ platform.UpOptions) error {
	if !in.embedded() {
		return nil
	}
	files := in.authorityFiles()
	bundle, err := pki.ReadBundle(files.Dir())
	if err != nil {
		return err
	}
	kept := in.authority()
	err = kept.Adopt(ctx, bundle)
	if !errors.Is(err, authority.ErrOther) {
		return err
	}
	if bundle, err = kept.Bundle(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(files.Dir()); err != nil {
		return err
	}
	if err := pki.WriteBundle(files.Dir(), bundle); err != nil {
		return err
	}
	if _, err := files.Ensure([]pki.Leaf{managementLeaf()}); err != nil {
		return err
	}
	return in.restartEmbedded(ctx)
}

// ca is the authority's certificate, by which the identity service and admission are known.
func (in *installation) ca(ctx context.Context) ([]byte, error) {
	bundle, err := in.authority().Bundle(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the platform's authority: %w", err)
	}
	return bundle.ClusterCA(), nil
}

// exportTrust writes the files with which the API server of an existing cluster, which is not ours to start, can be made
// to ask the identity service, or to verify its tokens offline. They refer to each other by name only: the directory may
// be copied to where the API server is.
func (in *installation) exportTrust(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kept := in.authority()
	ended := make(chan error, 1)
	go func() { ended <- kept.Run(ctx) }()
	if err := in.until(ctx, func(context.Context) (bool, error) { return kept.Ready(), nil }); err != nil {
		return err
	}
	clients := authority.NewClients(kept, in.kube, Namespace, clock.RealClock{}, slog.New(slog.DiscardHandler))
	secret, err := clients.Ensure(ctx, authority.Client{Name: authority.ManagementClient})
	if err != nil {
		return err
	}
	cancel()
	<-ended
	online, err := webhook.Config{URL: iamURL(in.iamAddress), CA: caFile, Certificate: corev1.TLSCertKey, Key: corev1.TLSPrivateKeyKey}.Render()
	if err != nil {
		return err
	}
	offline, err := webhook.Offline{Issuer: iamURL(in.iamAddress), CA: secret.Data[corev1.ServiceAccountRootCAKey]}.Render()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(in.files, 0o700); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		caFile: secret.Data[corev1.ServiceAccountRootCAKey], corev1.TLSCertKey: secret.Data[corev1.TLSCertKey],
		corev1.TLSPrivateKeyKey: secret.Data[corev1.TLSPrivateKeyKey], webhook.FileName: online, authenticationFile: offline,
	} {
		if err := atomicfile.Write(filepath.Join(in.files, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// trustNotes tell what the owner of an existing cluster has to do so that users can log in to it.
func (in *installation) trustNotes() []string {
	return []string{
		"the cluster's API server does not ask the platform who a token belongs to, so commands use " + in.target.Kubeconfig + ".",
		"to let users in, copy " + in.files + " to the API server's host, start it with",
		"  --authentication-token-webhook-config-file=DIRECTORY/" + webhook.FileName + " --authentication-token-webhook-version=v1 --authentication-token-webhook-cache-ttl=" + webhookTTL,
		"or, to verify tokens offline, with --authentication-config=DIRECTORY/" + authenticationFile + ", and repeat `cloud up`",
	}
}
