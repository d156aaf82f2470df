package audit

import (
	"fmt"
	"testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/tenant"
)

// answers are connections that all end alike.
type answers struct{ err error }

func (a answers) Get(*v1alpha1.Cluster) (*tenant.Connection, error) { return nil, a.err }
func (answers) Subscribe(func(tenant.Change))                       {}

func TestAnAPIThatNobodyHasAskedYetIsNotOneThatDoesNotAnswer(t *testing.T) {
	for _, c := range []struct {
		kind v1alpha1.ClusterType
		err  error
		want bool
	}{
		{v1alpha1.ClusterHosted, fmt.Errorf("%w: %w", tenant.ErrNotConnected, tenant.ErrNotTried), true},
		{v1alpha1.ClusterHosted, fmt.Errorf("%w: connection refused", tenant.ErrNotConnected), false},
		{v1alpha1.ClusterHosted, nil, false},
		{v1alpha1.ClusterEKS, fmt.Errorf("%w: %w", tenant.ErrNotConnected, tenant.ErrNotTried), false}, // the platform is not connected to it
	} {
		r := &Reconciler{Tenants: answers{c.err}}
		if got := r.connecting(&v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{Type: c.kind}}); got != c.want {
			t.Errorf("%s, %v: %v", c.kind, c.err, got)
		}
	}
}
