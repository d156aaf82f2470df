package datastore

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Shared is one etcd for many clusters.
type Shared struct {
	server  server
	metrics *metrics
}

var _ Datastore = (*Shared)(nil)

// NewShared describes the shared etcd. Nothing is made before Install; all else works on what another process installed.
func NewShared(config Config) (*Shared, error) {
	if config.Size == (Size{}) {
		config.Size = SharedSize()
	}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(config.Registry)
	if err != nil {
		return nil, err
	}
	return &Shared{server: server{config: config, shared: true}, metrics: m}, nil
}

// Install makes the etcd, or brings it to what this version wants. It does not wait until it is ready.
func (s *Shared) Install(ctx context.Context) error {
	if err := s.server.install(ctx); err != nil {
		return fmt.Errorf("install the datastore: %w", err)
	}
	return nil
}

// Ready tells whether the etcd answers; ErrNotReady says why it does not.
func (s *Shared) Ready(ctx context.Context) error {
	_, _, err := s.server.open(ctx)
	return err
}

// Ensure implements Datastore.
func (s *Shared) Ensure(ctx context.Context, tenant Tenant) (Credentials, error) {
	if err := tenant.Validate(); err != nil {
		return Credentials{}, err
	}
	credentials, err := s.server.ensure(ctx, tenant)
	if err != nil {
		return Credentials{}, fmt.Errorf("make room for %s in the datastore: %w", tenant.Name, err)
	}
	return credentials, nil
}

// Remove implements Datastore. It returns when no key of the tenant is left.
func (s *Shared) Remove(ctx context.Context, tenant Tenant) error {
	if err := tenant.Validate(); err != nil {
		return err
	}
	if _, err := s.server.authorities(ctx); apierrors.IsNotFound(err) {
		return nil // there is no etcd that could hold anything
	}
	client, _, err := s.server.open(ctx)
	if err == nil {
		err = removeTenant(ctx, client, tenant.Name)
	}
	if err != nil {
		return fmt.Errorf("remove %s from the datastore: %w", tenant.Name, err)
	}
	return nil
}

// Tenants lists who has anything in the etcd.
func (s *Shared) Tenants(ctx context.Context) ([]Holding, error) {
	client, _, err := s.server.open(ctx)
	if err != nil {
		return nil, err
	}
	return holdings(ctx, client)
}

// Uninstall removes what the namespace's removal does not: the volumes. Data on hosts stay.
func (s *Shared) Uninstall(ctx context.Context) error {
	return s.server.removeOwnVolumes(ctx)
}

// Close ends the connection.
func (s *Shared) Close() error { return s.server.close() }
