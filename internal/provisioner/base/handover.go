package base

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/provisioner"
)

// settleTime is for how long an API that has just come up may refuse one request or other.
const settleTime = 15 * time.Second

// Settle tries again while an API that has just come up finds its feet.
func Settle(ctx context.Context, do func(ctx context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, settleTime, true, func(ctx context.Context) (bool, error) {
		last = do(ctx)
		return last == nil, nil
	})
	if last != nil {
		return last
	}
	return err
}

// Administrators are the certificates of a cluster's administrators. The super administrator's does not depend on RBAC.
type Administrators struct {
	CA                []byte
	Admin, SuperAdmin bootstrap.Credentials
	// AdminName and SuperAdminName are how kubeconfigs call them.
	AdminName, SuperAdminName string
}

// Kubeconfigs are the administrators': each for use from outside, and from pods of the management cluster.
func (b *Build) Kubeconfigs(e Endpoint, who Administrators) (map[string][]byte, error) {
	service := e.At(fmt.Sprintf("%s.%s.svc", ServiceName, b.Home))
	files := map[string][]byte{}
	for _, one := range []struct {
		file, user, server string
		credentials        bootstrap.Credentials
	}{
		{v1alpha1.KubeconfigAdmin, who.AdminName, e.URL(), who.Admin},
		{v1alpha1.KubeconfigAdminService, who.AdminName, service, who.Admin},
		{v1alpha1.KubeconfigSuperAdmin, who.SuperAdminName, e.URL(), who.SuperAdmin},
		{v1alpha1.KubeconfigSuperAdminService, who.SuperAdminName, service, who.SuperAdmin},
	} {
		content, err := bootstrap.Kubeconfig{
			Cluster: b.Cluster.Name, User: one.user, Server: one.server, CA: who.CA, Credentials: one.credentials,
		}.Render()
		if err != nil {
			return nil, err
		}
		files[one.file] = content
	}
	return files, nil
}

// Credentials are those in a kubeconfig of Kubeconfigs.
func Credentials(kubeconfig []byte) (bootstrap.Credentials, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return bootstrap.Credentials{}, fmt.Errorf("read the cluster's kubeconfig: %w", err)
	}
	return bootstrap.Credentials{Cert: config.CertData, Key: config.KeyData}, nil
}

// HandOver puts the administrator's kubeconfigs beside the cluster.
func (b *Build) HandOver(ctx context.Context) error {
	kubeconfigs, err := b.Secret(ctx, KubeconfigSecret)
	if err != nil {
		return err
	}
	if len(kubeconfigs.Data) == 0 {
		return errors.New("the cluster's kubeconfigs are not there: repair the cluster")
	}
	name := v1alpha1.AdminKubeconfigSecret(b.Cluster.Name)
	err = Permitted(ctx, func(ctx context.Context) error {
		return b.Apply(ctx, &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: b.Owned(name), Data: kubeconfigs.Data,
		})
	})
	if err != nil {
		return err
	}
	b.Scope.SetOutput(provisioner.OutputKubeconfig, name)
	return nil
}
