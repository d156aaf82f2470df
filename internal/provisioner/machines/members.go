package machines

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/balancer"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

// The balancer's list of servers is also the record of who is in the control plane: the machine that it begins with is
// entered before it is initialised, so that everybody reaches it from then on, and any other when it has joined.

// members are the servers of the control plane.
func (b *build) members(ctx context.Context) ([]balancer.Server, error) {
	configMap, err := b.Client.CoreV1().ConfigMaps(b.Home).Get(ctx, balancer.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read who is in the control plane: %w", err)
	}
	return balancer.Read(configMap)
}

// setMembers changes them.
func (b *build) setMembers(ctx context.Context, change func(members []balancer.Server) []balancer.Server) error {
	configMaps := b.Client.CoreV1().ConfigMaps(b.Home)
	err := retry.OnError(retry.DefaultRetry, base.Raced, func() error {
		configMap, err := configMaps.Get(ctx, balancer.Name, metav1.GetOptions{})
		fresh := apierrors.IsNotFound(err)
		if fresh {
			configMap, err = &corev1.ConfigMap{ObjectMeta: b.Meta(balancer.Name)}, nil
		}
		if err != nil {
			return err
		}
		members, err := balancer.Read(configMap)
		if err != nil {
			return err
		}
		changed := change(slices.Clone(members))
		if slices.Equal(changed, members) {
			return nil
		}
		if err := balancer.Write(configMap, changed); err != nil {
			return err
		}
		if fresh {
			_, err = configMaps.Create(ctx, configMap, metav1.CreateOptions{FieldManager: b.Manager})
		} else {
			_, err = configMaps.Update(ctx, configMap, metav1.UpdateOptions{FieldManager: b.Manager})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("record who is in the control plane: %w", err)
	}
	return nil
}

// enter makes a machine a member, and its API server one that clients are led to.
func (b *build) enter(ctx context.Context, m *v1alpha1.Machine) error {
	server := balancer.Server{Name: m.Name, Address: net.JoinHostPort(m.Status.Address, strconv.Itoa(portAPI))}
	return b.setMembers(ctx, func(members []balancer.Server) []balancer.Server {
		return append(without(members, m.Name), server)
	})
}

// leave strikes a machine off.
func (b *build) leave(ctx context.Context, name string) error {
	return b.setMembers(ctx, func(members []balancer.Server) []balancer.Server { return without(members, name) })
}

func without(members []balancer.Server, name string) []balancer.Server {
	return slices.DeleteFunc(members, func(member balancer.Server) bool { return member.Name == name })
}

func isMember(members []balancer.Server, name string) bool {
	return slices.ContainsFunc(members, func(member balancer.Server) bool { return member.Name == name })
}
