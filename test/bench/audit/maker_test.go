//go:build bench

package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/datastore"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/provisioner/hosted"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/tenant"
	"plasmacloud.io/plasmacloud/internal/testapi"
	"plasmacloud.io/plasmacloud/test/measure/plane"
)

const (
	project   = "p"
	namespace = v1alpha1.NamespacePrefix + project
	address   = "127.0.0.1"
)

// maker makes clusters that are as a creation leaves them, but for the pods that nobody runs here. Their API is one that
// all of them share.
type maker struct {
	plane       *plane.Plane
	api         kubernetes.Interface
	provisioner *hosted.Provisioner
	kubeconfig  []byte
}

func newMaker(t *testing.T, p *plane.Plane, tenants *testapi.Server) *maker {
	t.Helper()
	api, err := kubernetes.NewForConfig(p.API.Config())
	plane.Must(t, err)
	untyped, err := dynamic.NewForConfig(p.API.Config())
	plane.Must(t, err)
	config, err := tenants.PKI().EmbeddedKubeconfig(pki.Admin, tenants.URL())
	plane.Must(t, err)
	content, err := clientcmd.Write(*config)
	plane.Must(t, err)
	m := &maker{plane: p, api: api, kubeconfig: content}
	m.provisioner, err = hosted.New(hosted.Config{
		Datastore: func(*v1alpha1.Cluster) (hosted.Datastore, error) { return store{}, nil }, Scratch: t.TempDir(),
		Config: base.Config{
			Client: api, Dynamic: untyped, Identities: identities{}, IdentityURL: "https://iam.plasmacloud-system.svc",
			Catalogue: func() (*catalogue.Catalogue, error) { return p.Catalogue, nil },
			Site:      m.site, Platform: plane.System, Account: "cloudd", Clock: clock.RealClock{}, PullPolicy: corev1.PullIfNotPresent,
		},
	})
	plane.Must(t, err)
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{v1alpha1.LabelOrganization: "o", v1alpha1.LabelProject: project}}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "local"}, Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderLocal}},
		&v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}},
	} {
		plane.Must(t, p.Client.Create(t.Context(), object))
	}
	return m
}

// site is what cloudd finds with the same address: there are no nodes.
func (m *maker) site(ctx context.Context) (base.Site, error) {
	ranges, err := m.api.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return base.Site{}, err
	}
	site := base.Site{Address: netip.MustParseAddr(address)}
	for _, each := range ranges.Items {
		for _, text := range each.Spec.CIDRs {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return base.Site{}, err
			}
			site.ServiceCIDRs = append(site.ServiceCIDRs, prefix)
		}
	}
	return site, nil
}

// make makes one.
func (m *maker) make(ctx context.Context, name string) error {
	c := &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{v1alpha1.Finalizer}},
		Spec:       v1alpha1.ClusterSpec{Type: v1alpha1.ClusterHosted, ControlPlane: v1alpha1.ControlPlane{Replicas: 1}},
	}
	if err := m.plane.Client.Create(ctx, c); err != nil {
		return err
	}
	steps, err := m.provisioner.Steps(v1alpha1.OperationCreate, c)
	if err != nil {
		return err
	}
	home, outputs := v1alpha1.InfrastructureNamespace(c), map[string]string{}
	for _, step := range steps {
		switch step.Name {
		case "api", "cluster-objects":
			continue // nobody runs it
		case "nodes":
			if err := m.pretend(ctx, home); err != nil {
				return err
			}
		}
		c.Status.Version = outputs["version"]
		scope := &task.Scope{
			Task:   &v1alpha1.Task{Spec: v1alpha1.TaskSpec{Generation: c.Generation}, Status: v1alpha1.TaskStatus{Outputs: maps.Clone(outputs)}},
			Object: c.DeepCopy(), Attempt: 1, Log: slog.New(slog.DiscardHandler),
		}
		if err := step.Run(ctx, scope); err != nil {
			return fmt.Errorf("step %s: %w", step.Name, err)
		}
		maps.Copy(outputs, scope.Outputs())
	}
	return m.finish(ctx, c, outputs)
}

// pretend says that the control plane's pods run, and where its API is.
func (m *maker) pretend(ctx context.Context, home string) error {
	deployments := m.api.AppsV1().Deployments(home)
	deployment, err := deployments.Get(ctx, base.ServiceName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	if _, err := deployments.UpdateStatus(ctx, deployment, metav1.UpdateOptions{}); err != nil {
		return err
	}
	secrets := m.api.CoreV1().Secrets(home)
	secret, err := secrets.Get(ctx, tenant.KubeconfigSecret, metav1.GetOptions{})
	if err != nil {
		return err
	}
	secret.Data[v1alpha1.KubeconfigSuperAdminService] = m.kubeconfig
	_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	return err
}

// finish leaves the record of a creation that has succeeded.
func (m *maker) finish(ctx context.Context, c *v1alpha1.Cluster, outputs map[string]string) error {
	created := &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: c.Name + "-create", Labels: map[string]string{v1alpha1.LabelCluster: c.Name}},
		Spec: v1alpha1.TaskSpec{
			Resource:  v1alpha1.ResourceReference{Kind: "Cluster", Name: c.Name, UID: string(c.UID)},
			Operation: v1alpha1.OperationCreate, Generation: c.Generation,
		},
	}
	if err := m.plane.Client.Create(ctx, created); err != nil {
		return err
	}
	now := metav1.NewTime(time.Now())
	created.Status = v1alpha1.TaskStatus{Phase: v1alpha1.TaskSucceeded, FinishedAt: &now, Outputs: outputs}
	c.Status = v1alpha1.ClusterStatus{Phase: v1alpha1.PhaseRunning, ObservedGeneration: c.Generation, Version: outputs["version"], Endpoint: outputs["endpoint"], Task: created.Name}
	return errors.Join(m.plane.Client.Status().Update(ctx, created), m.plane.Client.Status().Update(ctx, c))
}

// store has room for everybody.
type store struct{}

func (store) Ensure(_ context.Context, tenant datastore.Tenant) (datastore.Credentials, error) {
	return datastore.Credentials{Endpoints: []string{"https://etcd:2379"}, Prefix: "/tenants/" + tenant.Name, CA: []byte("ca"), Pair: datastore.Pair{Cert: []byte("certificate"), Key: []byte("key")}}, nil
}

func (store) Remove(context.Context, datastore.Tenant) error { return nil }

// identities certifies everybody.
type identities struct{}

func (identities) Ensure(_ context.Context, c authority.Client) (*corev1.Secret, error) {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Data: map[string][]byte{"ca.crt": []byte("ca"), "tls.crt": []byte("certificate"), "tls.key": []byte("key")}}, nil
}

func (identities) Revoke(context.Context, string) error { return nil }
