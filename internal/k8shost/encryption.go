package k8shost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/encryption"
	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
	"plasmacloud.io/plasmacloud/internal/k8shost/join"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

// reloadPatience is how long API servers may take to load keys: they look once a minute, and may be busy.
const reloadPatience = 3 * time.Minute

// EncryptionStatus is how Secrets are encrypted.
type EncryptionStatus struct {
	Provider string             `json:"provider"`
	Key      string             `json:"key"`
	Keys     []string           `json:"keys"`
	Stage    pki.Stage          `json:"stage"`
	Servers  []EncryptionServer `json:"servers"`
}

// EncryptionServer is an API server, and whether it works with these keys.
type EncryptionServer struct {
	Name   string `json:"name"`
	Loaded bool   `json:"loaded"`
	Error  string `json:"error,omitempty"`
}

// SecretsEncryption tells how the Secrets of the cluster whose server runs in dir are encrypted.
func SecretsEncryption(ctx context.Context, dir datadir.Dir) (EncryptionStatus, error) {
	rotation, done, err := openRotation(dir)
	if err != nil {
		return EncryptionStatus{}, err
	}
	defer done()
	keys, err := rotation.Keys.Load(ctx)
	if err != nil {
		return EncryptionStatus{}, err
	}
	status := EncryptionStatus{Provider: "secretbox", Key: keys.Names()[0], Keys: keys.Names(), Stage: keys.Stage()}
	servers, err := rotation.Servers(ctx)
	for _, server := range servers {
		loaded, err := server.Loaded(ctx)
		told := EncryptionServer{Name: server.Name, Loaded: err == nil && loaded == keys.Hash()}
		if err != nil {
			told.Error = err.Error()
		}
		status.Servers = append(status.Servers, told)
	}
	return status, err
}

// RotateSecretsKey gives the cluster whose server runs in dir a new key for its Secrets, and encrypts them with it.
func RotateSecretsKey(ctx context.Context, dir datadir.Dir, report func(string)) (encryption.Result, error) {
	rotation, done, err := openRotation(dir)
	if err != nil {
		return encryption.Result{}, err
	}
	defer done()
	rotation.Report = report
	return rotation.Run(ctx)
}

func openRotation(dir datadir.Dir) (*encryption.Rotation, func(), error) {
	if _, running := dir.Launcher(); !running {
		return nil, nil, fmt.Errorf("no server runs in %s: keys are changed on a running one", dir.Path())
	}
	config, err := clientcmd.BuildConfigFromFlags("", dir.AdminKubeconfig())
	if err != nil {
		return nil, nil, err
	}
	config.QPS = -1 // the API server's own fairness is enough
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	keys, done, err := openKeys(dir, config)
	if err != nil {
		return nil, nil, err
	}
	return &encryption.Rotation{Keys: keys, Servers: encryption.Servers(config), Objects: objects, Patience: reloadPatience}, done, nil
}

// openKeys finds where the cluster keeps its keys: in the embedded etcd, or, with another datastore, in the server's own
// file.
func openKeys(dir datadir.Dir, config *rest.Config) (encryption.Keys, func(), error) {
	content, err := os.ReadFile(dir.Token())
	if err != nil {
		return nil, nil, fmt.Errorf("no server in %s: %w", dir.Path(), err)
	}
	own, err := token.Parse(string(content))
	if err != nil {
		return nil, nil, err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	store := pki.New(dir.TLS(), clock.RealClock{})
	offer := offer{api: api, token: own}
	_, err = os.Stat(filepath.Join(dir.EtcdData(), "member"))
	if errors.Is(err, fs.ErrNotExist) {
		return &fileKeys{offer: offer, store: store, servers: encryption.Servers(config)}, func() {}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	client, err := localEtcd(store)
	if err != nil {
		return nil, nil, err
	}
	return &etcdKeys{offer: offer, client: client}, func() { _ = client.Close() }, nil
}

// offer is how servers that join get what the others share.
type offer struct {
	api   kubernetes.Interface
	token token.Token
}

func (o offer) publish(ctx context.Context, bundle *pki.Bundle) error {
	return join.PublishServerBundle(ctx, o.api, bundle, o.token.Password())
}

// etcdKeys are the keys in the embedded etcd, which all servers follow.
type etcdKeys struct {
	offer
	client   *clientv3.Client
	bundle   *pki.Bundle
	revision int64
}

// Load implements encryption.Keys.
func (k *etcdKeys) Load(ctx context.Context) (pki.Encryption, error) {
	limited, cancel := soon(ctx)
	defer cancel()
	sealed, revision, err := etcd.Bootstrap(limited, k.client)
	if err != nil {
		return pki.Encryption{}, err
	}
	if sealed == nil {
		return pki.Encryption{}, errors.New("the server is still starting: try again in a moment")
	}
	if k.bundle, err = openBundle(k.token, sealed); err != nil {
		return pki.Encryption{}, err
	}
	k.revision = revision
	return k.bundle.Encryption()
}

// Store implements encryption.Keys.
func (k *etcdKeys) Store(ctx context.Context, keys pki.Encryption) error {
	bundle, err := k.bundle.WithEncryption(keys)
	if err != nil {
		return err
	}
	sealed, err := sealBundle(k.token, bundle)
	if err != nil {
		return err
	}
	if err := etcd.PutBootstrap(ctx, k.client, sealed, k.revision); err != nil {
		return err
	}
	if _, err := k.Load(ctx); err != nil {
		return err
	}
	return k.publish(ctx, bundle)
}

// fileKeys are the keys in the file of a server that is the only one.
type fileKeys struct {
	offer
	store   *pki.Store
	servers func(context.Context) ([]encryption.Server, error)
}

// Load implements encryption.Keys.
func (k *fileKeys) Load(ctx context.Context) (pki.Encryption, error) {
	servers, err := k.servers(ctx)
	if err != nil {
		return pki.Encryption{}, err
	}
	if len(servers) > 1 {
		return pki.Encryption{}, fmt.Errorf("the cluster has %d servers on a datastore of its own, where k8shost keeps no keys: "+
			"change %s on each of them by hand, as the documentation of secrets-encrypt says", len(servers), k.store.EncryptionConfigPath())
	}
	return pki.ReadEncryption(k.store.EncryptionConfigPath())
}

// Store implements encryption.Keys.
func (k *fileKeys) Store(ctx context.Context, keys pki.Encryption) error {
	if err := pki.WriteEncryption(k.store.EncryptionConfigPath(), keys); err != nil {
		return err
	}
	bundle, err := pki.ReadBundle(k.store.Dir())
	if err != nil {
		return err
	}
	return k.publish(ctx, bundle)
}
