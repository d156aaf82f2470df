package cni

import (
	"context"
	"errors"
	"slices"

	"github.com/containernetworking/cni/pkg/types"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
)

// del removes everything of the pod's interface. It needs neither the pod's
// namespace nor a lease, and having nothing to remove is success.
func (o *operation) del(ctx context.Context) error {
	return o.locked(ctx, func(session *ipam.Session) error {
		leases, err := session.Find(o.key())
		if err != nil {
			return err
		}
		if err := o.dataplane.Detach(o.key()); err != nil {
			return err
		}
		return o.dataplane.Release(ctx, session, leases...)
	})
}

// gc removes everything that the runtime does not list as valid.
func (o *operation) gc(ctx context.Context) error {
	return o.locked(ctx, func(session *ipam.Session) error {
		_, err := o.dataplane.Collect(ctx, session, func(lease ipam.Lease) (bool, error) {
			return slices.ContainsFunc(o.config.ValidAttachments, func(valid types.GCAttachment) bool {
				return lease.Key == ipam.Key{ContainerID: valid.ContainerID, IfName: valid.IfName}
			}), nil
		})
		return err
	})
}

// status tells whether ADD would work.
func (o *operation) status(context.Context) error {
	if _, err := o.config.network(); err != nil {
		return err
	}
	ready, err := o.dataplane.HostReady()
	if err == nil && !ready {
		err = errors.New("the node daemon has not prepared the node")
	}
	if err != nil {
		return types.NewError(codeNotAvailable, "pod network is not ready", err.Error())
	}
	return nil
}
