package cloudd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cloudapi"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/deployer/pods"
	"plasmacloud.io/plasmacloud/internal/deployer/remote"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/iam/store"
	"plasmacloud.io/plasmacloud/internal/kubeaccess/wire"
	"plasmacloud.io/plasmacloud/internal/provisioner/cloud"
	"plasmacloud.io/plasmacloud/internal/provisioner/cloud/addons"
	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	"plasmacloud.io/plasmacloud/internal/terraform/azure"
	"plasmacloud.io/plasmacloud/internal/terraform/gcp"
	"plasmacloud.io/plasmacloud/internal/terraform/state"
	"plasmacloud.io/plasmacloud/internal/terraform/state/secret"
	taskv1 "plasmacloud.io/plasmacloud/proto/plasmacloud/task/v1"
)

// keysSecret holds what states are sealed and tokens are signed with. Without it, states cannot be read.
const keysSecret = "cloud-keys"

// deployerSettings, followed by a cloud's name, is a ConfigMap of the platform's namespace with further environment for
// deployers of that cloud: proxies, private endpoints, or whom to trust. It is the operator's, and optional.
const deployerSettings = "deployer-"

// chartsDir of the release holds the charts of add-ons, if any.
const chartsDir = "charts"

// clouds is what infrastructure in clouds needs of the daemon.
type clouds struct {
	*Daemon
	api         kubernetes.Interface
	built       *release.Cloud
	states      *state.Backend
	provisioner *cloud.Provisioner
}

// newClouds serves deployers. It is nil where the release has nothing for clouds, or deployers could not have it.
func (d *Daemon) newClouds(ctx context.Context) (*clouds, error) {
	if d.config.ReleaseDir == "" || d.config.ReleaseClaim == "" {
		return nil, nil
	}
	built, err := release.OpenCloud(d.config.ReleaseDir)
	if err != nil {
		d.log.Info("nothing is made in clouds", "reason", err)
		return nil, nil
	}
	api, err := kubernetes.NewForConfig(d.manager.GetConfig())
	if err != nil {
		return nil, err
	}
	c := &clouds{Daemon: d, api: api, built: built}
	tokens, err := c.openStates(ctx)
	if err != nil {
		return nil, err
	}
	certificates := authority.New(store.NewRecord(api, d.config.Namespace, authority.SecretName, store.KindAuthority),
		d.config.Scratch, clock.RealClock{}, d.log)
	deployments := pods.New(pods.Config{
		API: api, Namespace: d.config.Namespace, Image: d.config.Image, PullPolicy: corev1.PullPolicy(d.config.ImagePullPolicy),
		ReleaseClaim: d.config.ReleaseClaim, Service: d.config.DeploymentsService, CA: certificates.CA, Token: tokens.Issue,
		Unlock: c.unlock, Environment: c.environment, Log: d.log,
	})
	if c.provisioner, err = cloud.New(cloud.Config{
		Deployments: deployments, States: stackStates{c.states}, Resources: resources{d.manager.GetClient()}, Environment: c.environment,
		Addons: &addons.Installer{
			Charts: addons.Charts{Dir: filepath.Join(d.config.ReleaseDir, chartsDir), Scratch: d.config.Scratch},
			Log:    d.log, Patience: time.Minute, Poll: 5 * time.Second,
		},
	}); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(deployer.PathOrders+"/", http.StripPrefix(deployer.PathOrders, deployer.NewService(deployments, tokens, d.log)))
	mux.Handle(deployer.PathStates+"/", http.StripPrefix(deployer.PathStates, state.NewHandler(c.states, tokens, d.log)))
	mux.Handle(c.remote(deployments, tokens))
	names := append([]string{d.config.DeploymentsService + "." + d.config.Namespace + ".svc"}, d.config.DeploymentsNames...)
	serving := authority.NewServing(certificates, names, clock.RealClock{}, d.log)
	return c, errors.Join(
		d.manager.Add(always(certificates.Run)),
		d.manager.Add(always(func(ctx context.Context) error { serving.Run(ctx); return nil })),
		d.manager.Add(always(func(ctx context.Context) error {
			return serve(ctx, "deployers", d.config.DeploymentsAddress, serving, mux)
		})),
	)
}

// remote serves deployers that run elsewhere.
func (c *clouds) remote(deployments *pods.Deployments, tokens *state.Tokens) (pattern string, handler http.Handler) {
	server := grpc.NewServer()
	taskv1.RegisterTaskManagerServer(server, remote.New(remote.Config{
		Records: deployments, Account: resources{c.manager.GetClient()}.Account, StateToken: tokens.Issue, Lease: pods.LeaseDuration, Log: c.log,
	}))
	return "/" + taskv1.TaskManager_ServiceDesc.ServiceName + "/", server
}

// openStates opens the backend for states, and the tokens for it.
func (c *clouds) openStates(ctx context.Context) (*state.Tokens, error) {
	keys, err := c.keys(ctx)
	if err != nil {
		return nil, err
	}
	ring, err := state.NewKeyring(keys["states"])
	if err != nil {
		return nil, err
	}
	c.states, err = state.New(state.Config{Store: secret.New(c.api.CoreV1().Secrets(c.config.Namespace)), Keys: ring, Now: time.Now})
	if err != nil {
		return nil, err
	}
	return state.NewTokens(keys["tokens"], time.Now)
}

// keys are made once for the installation.
func (c *clouds) keys(ctx context.Context) (map[string][]byte, error) {
	secrets := c.api.CoreV1().Secrets(c.config.Namespace)
	have, err := secrets.Get(ctx, keysSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: keysSecret}, Data: map[string][]byte{}}
		for _, name := range []string{"states", "tokens"} {
			key := make([]byte, state.KeySize)
			_, _ = rand.Read(key) // which never fails
			made.Data[name] = key
		}
		if have, err = secrets.Create(ctx, made, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			have, err = secrets.Get(ctx, keysSecret, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the keys of states: %w", err)
	}
	return have.Data, nil
}

// unlock takes the lock of a stack's state away.
func (c *clouds) unlock(ctx context.Context, stack string) error {
	record, err := c.states.Describe(ctx, stack)
	if errors.Is(err, state.ErrNotFound) {
		return nil
	}
	if err != nil || record.Lock == nil {
		return err
	}
	c.log.InfoContext(ctx, "lock taken away from a deployer that is no more", "stack", stack, "lock", record.Lock.ID)
	return c.states.Unlock(ctx, stack, record.Lock.ID)
}

// environment is what deployers for an account run with.
func (c *clouds) environment(ctx context.Context, name string, from deployer.Account) (map[string]string, error) {
	account, err := resources{c.manager.GetAPIReader()}.Account(ctx, from.Namespace, from.Name)
	if err != nil {
		return nil, err
	}
	credentials, err := c.credentials(ctx, account)
	if err != nil {
		return nil, err
	}
	settings, err := c.api.CoreV1().ConfigMaps(c.config.Namespace).Get(ctx, deployerSettings+name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read the settings of deployers for %s: %w", name, err)
	}
	environment := map[string]string{}
	if err == nil {
		maps.Copy(environment, settings.Data)
	}
	maps.Copy(environment, credentials)
	return environment, nil
}

// credentials are an account's, as of now.
func (c *clouds) credentials(ctx context.Context, account *v1alpha1.Account) (map[string]string, error) {
	var data map[string][]byte
	if account.Spec.Credentials != nil {
		found, err := c.api.CoreV1().Secrets(account.Namespace).Get(ctx, account.Spec.Credentials.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read the credentials of account %s: %w", account.Name, err)
		}
		data = found.Data
	}
	return cloud.Environment(account, data)
}

// access makes access to a cluster in a cloud.
func (c *clouds) access(ctx context.Context, cluster *v1alpha1.Cluster) (*wire.Access, error) {
	made, err := c.provisioner.Access(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return &wire.Access{Server: made.Endpoint, CA: string(made.CA), Token: made.Token.Value, ExpiresAt: made.Token.Expires}, nil
}

// Offers implements account.Clouds. It is true of what scenarios have shown to work.
func (c *clouds) Offers(provider v1alpha1.Provider) bool {
	if c == nil {
		return false
	}
	switch provider {
	case v1alpha1.ProviderAWS:
		return c.built.Has(aws.Provider)
	case v1alpha1.ProviderGCP:
		return c.built.Has(gcp.Provider)
	case v1alpha1.ProviderAzure:
		return c.built.Has(azure.Provider)
	}
	return false
}

// Complete implements account.Clouds.
func (c *clouds) Complete(ctx context.Context, account *v1alpha1.Account) error {
	_, err := c.credentials(ctx, account)
	return err
}

// Verify implements account.Clouds.
func (c *clouds) Verify(ctx context.Context, account *v1alpha1.Account) (cloudapi.Verdict, error) {
	return c.provisioner.Verify(ctx, account)
}

// stackStates are the states as the provisioner looks at them.
type stackStates struct{ backend *state.Backend }

// Outputs implements cloud.States.
func (s stackStates) Outputs(ctx context.Context, stack string) (map[string]json.RawMessage, error) {
	raw, err := s.backend.Get(ctx, stack)
	if errors.Is(err, state.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return terraform.ReadOutputs(raw)
}

// Delete implements cloud.States.
func (s stackStates) Delete(ctx context.Context, stack string) error {
	return s.backend.Delete(ctx, stack)
}

// Resources implements cloud.States.
func (s stackStates) Resources(ctx context.Context, stack string) (map[string]string, error) {
	raw, err := s.backend.Get(ctx, stack)
	if errors.Is(err, state.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return terraform.ReadState(raw)
}

// Abandon implements cloud.States.
func (s stackStates) Abandon(ctx context.Context, stack string) error {
	return s.backend.Abandon(ctx, stack)
}

// resources are read from the management API.
type resources struct{ client.Reader }

var _ cloud.Resources = resources{}

func read[T any, P interface {
	*T
	client.Object
}](ctx context.Context, from client.Reader, what, namespace, name string) (P, error) {
	object := P(new(T))
	if err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", what, name, err)
	}
	return object, nil
}

// Account implements cloud.Resources.
func (r resources) Account(ctx context.Context, namespace, name string) (*v1alpha1.Account, error) {
	return read[v1alpha1.Account](ctx, r.Reader, "account", namespace, name)
}

// Network implements cloud.Resources.
func (r resources) Network(ctx context.Context, namespace, name string) (*v1alpha1.Network, error) {
	return read[v1alpha1.Network](ctx, r.Reader, "network", namespace, name)
}

// Cluster implements cloud.Resources.
func (r resources) Cluster(ctx context.Context, namespace, name string) (*v1alpha1.Cluster, error) {
	return read[v1alpha1.Cluster](ctx, r.Reader, "cluster", namespace, name)
}
