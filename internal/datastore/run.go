package datastore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

const (
	// maintainInterval is how soon an etcd that is full, or lacks members, is looked after.
	maintainInterval = 30 * time.Second
	// retryInterval is for an etcd that is just being installed.
	retryInterval = 2 * time.Second
	// parallel is how many dedicated etcds are looked after at once.
	parallel = 8
)

func alreadyCompacted(err error) bool { return errors.Is(err, rpctypes.ErrCompacted) }

// Run installs the shared etcd and looks after it, and after every dedicated one, until ctx ends: certificates, objects
// that somebody changed, members that are missing, garbage, and full databases. One process at a time runs it.
func (s *Shared) Run(ctx context.Context) error {
	clk := s.server.config.Clock
	timer := clk.NewTimer(maintainInterval)
	defer timer.Stop()
	for {
		wait := maintainInterval
		if err := s.round(ctx); err != nil && ctx.Err() == nil {
			if errors.Is(err, ErrNotReady) {
				s.server.config.Logger.InfoContext(ctx, "wait for the datastore", "reason", err)
			} else {
				s.server.config.Logger.ErrorContext(ctx, "look after the datastore", "error", err)
			}
			wait = retryInterval
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
		}
	}
}

// round looks after all etcds once. What is wrong with one does not keep it from the others; it is the shared one that is
// soon tried again.
func (s *Shared) round(ctx context.Context) error {
	err := s.lookAfter(ctx, &s.server)
	dedicated, listErr := s.dedicated(ctx)
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	var work sync.WaitGroup
	slots := make(chan struct{}, parallel)
	namespaces := []string{s.server.config.Namespace}
	for _, each := range dedicated {
		namespaces = append(namespaces, each.config.Namespace)
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			if err := errors.Join(s.lookAfter(ctx, each), each.close()); err != nil && ctx.Err() == nil {
				s.server.config.Logger.WarnContext(ctx, "look after a dedicated datastore", "error", err)
			}
		})
	}
	work.Wait()
	s.metrics.forgetOthers(namespaces)
	return err
}

func (s *Shared) lookAfter(ctx context.Context, each *server) error {
	err := s.tend(ctx, each)
	if err == nil {
		return nil
	}
	s.metrics.failed(each.config.Namespace)
	return fmt.Errorf("datastore in %s: %w", each.config.Namespace, err)
}

// tend brings one etcd to what it should be. A member that is missing does not keep it from making room.
func (s *Shared) tend(ctx context.Context, each *server) error {
	keep := each.install
	if !each.shared {
		keep = each.keep
	}
	if err := keep(ctx); err != nil {
		return err
	}
	client, _, err := each.open(ctx)
	if err != nil {
		return err
	}
	mended := each.mend(ctx)
	found, err := each.maintain(ctx, client)
	if s.metrics.report(each.config.Namespace, found) && each.config.Alarmed != nil {
		each.config.Alarmed(ctx, each.config.Namespace, found.full)
	}
	if found.full {
		each.config.Logger.ErrorContext(ctx, "the datastore is full: clusters in it can only read and delete", "namespace", each.config.Namespace)
	}
	if err == nil && each.shared {
		err = s.countTenants(ctx, client)
	}
	return errors.Join(mended, err)
}

func (s *Shared) countTenants(ctx context.Context, client *clientv3.Client) error {
	tenants, err := holdings(ctx, client)
	if err != nil {
		return err
	}
	s.metrics.countTenants(tenants)
	return nil
}

// dedicated finds the etcds of single clusters.
func (s *Shared) dedicated(ctx context.Context) ([]*server, error) {
	sets, err := s.server.config.API.AppsV1().StatefulSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: labels.Set{
		v1alpha1.LabelComponent: v1alpha1.ComponentDatastore,
	}.String()})
	if err != nil {
		return nil, fmt.Errorf("list dedicated datastores: %w", err)
	}
	var found []*server
	for _, set := range sets.Items {
		if set.Namespace == s.server.config.Namespace || set.Name != name || set.DeletionTimestamp != nil {
			continue
		}
		config := s.server.config
		config.Namespace, config.Platform, config.Size = set.Namespace, s.server.config.platform(), DedicatedSize()
		config.Replicas, config.Labels = replicasOf(&set), nil
		found = append(found, &server{config: config})
	}
	return found, nil
}

// keep is for an etcd that somebody else installs: its certificates do not expire, and its members have volumes.
func (s *server) keep(ctx context.Context) error {
	authorities, err := s.authorities(ctx)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: it is being made or removed", ErrNotReady)
	}
	if err != nil {
		return err
	}
	if err := s.ensureCertificates(ctx, authorities); err != nil {
		return err
	}
	set, err := s.statefulSet(ctx)
	if err != nil || set == nil || classOf(set) != "" {
		return err
	}
	return s.ensureVolumes(ctx, authorities, replicasOf(set))
}
