package hosted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/datastore"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/task"
)

// What the cluster's PKI keeps about its datastore.
const (
	etcdFile     = "etcd.json"
	etcdCAFile   = "etcd-ca.crt"
	etcdCertFile = "etcd-client.crt"
	etcdKeyFile  = "etcd-client.key"
)

// etcdPlace is where the datastore is; the certificates are beside it.
type etcdPlace struct {
	Endpoints []string `json:"endpoints"`
	Prefix    string   `json:"prefix"`
}

// ensureDatastore gives the cluster a place for its objects.
func (b *build) ensureDatastore(ctx context.Context) error {
	store, err := b.own.Datastore(b.Cluster)
	if err != nil {
		return fmt.Errorf("choose datastore: %w", err)
	}
	kept, err := b.Secret(ctx, pkiSecretName)
	if err != nil {
		return err
	}
	have := datastore.Pair{Cert: kept.Data[etcdCertFile], Key: kept.Data[etcdKeyFile]}
	credentials, err := store.Ensure(ctx, datastore.Tenant{Name: b.Home, Have: have})
	if errors.Is(err, datastore.ErrNotReady) {
		return task.Wait(500*time.Millisecond, "%v", err)
	}
	if err != nil {
		return fmt.Errorf("ask the datastore for a place: %w", err)
	}
	place, err := json.Marshal(etcdPlace{Endpoints: credentials.Endpoints, Prefix: credentials.Prefix})
	if err != nil {
		return err
	}
	_, err = b.Keep(ctx, pkiSecretName, func(data map[string][]byte) error {
		data[etcdFile], data[etcdCAFile] = place, credentials.CA
		data[etcdCertFile], data[etcdKeyFile] = credentials.Cert, credentials.Key
		return nil
	})
	return err
}

// etcd is how the API server reaches the datastore, given where its files will be.
func (l layout) etcd(kept map[string][]byte) (bootstrap.Etcd, error) {
	var place etcdPlace
	if err := json.Unmarshal(kept[etcdFile], &place); err != nil {
		return bootstrap.Etcd{}, fmt.Errorf("read where the datastore is: %w", err)
	}
	return bootstrap.Etcd{
		Servers: place.Endpoints, Prefix: place.Prefix,
		CA: l.path(etcdCAFile), Cert: l.path(etcdCertFile), Key: l.path(etcdKeyFile),
		CompactsItself: true,
	}, nil
}

func (b *build) removeDatastore(ctx context.Context) error {
	store, err := b.own.Datastore(b.Cluster)
	if err != nil {
		return fmt.Errorf("choose datastore: %w", err)
	}
	err = store.Remove(ctx, datastore.Tenant{Name: b.Home})
	if errors.Is(err, datastore.ErrNotReady) && !b.Forced() {
		return task.Wait(500*time.Millisecond, "%v", err)
	}
	if err != nil {
		// A datastore that is lost takes what was in it along.
		if b.Forced() && b.Scope.Attempt > base.ForcedAttempts {
			b.Scope.Log.Warn("the deletion goes on without the datastore", "error", err)
			b.setInventory(kindTenant)
			return nil
		}
		return fmt.Errorf("remove tenant %s from the datastore: %w", b.Home, err)
	}
	b.setInventory(kindTenant)
	return nil
}
