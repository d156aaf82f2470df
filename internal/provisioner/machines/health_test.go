package machines

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// A security group that is not what it should be is found beside the rest, and installed anew without anything being
// restarted for it.
func TestSecurityGroupsAreFoundAndMended(t *testing.T) {
	h := newHosts(t)
	host := hostsetup.Host{Name: "a", Client: remote.NewPool(remote.Config{}).Client(remote.Host{Address: "a"})}
	problem, failure := "it is not loaded", error(nil)
	b := &build{Build: &base.Build{Cluster: &v1alpha1.Cluster{}}, own: &Config{
		CheckFirewall: func(context.Context, *v1alpha1.Cluster, *remote.Client, hostsetup.Role) (string, error) {
			return problem, failure
		},
	}}
	findings, err := b.health(t.Context(), h, host, hostsetup.Worker)
	if err != nil || len(findings) != 2 || !findings[1].Repairable || !strings.Contains(findings[1].String(), "the security group: it is not loaded") {
		t.Fatalf("%v, %v", findings, err)
	}
	installed := 0
	cluster := hostsetup.Cluster{Firewall: func(context.Context, *remote.Client, hostsetup.Role) error {
		installed++
		return failure
	}}
	h.forget()
	if err := mend(t.Context(), h, host, cluster, hostsetup.Worker, findings); err != nil || installed != 1 {
		t.Errorf("installed %d times: %v", installed, err)
	}
	if done := h.forget(); !slices.Equal(done, []string{"mend a"}) {
		t.Errorf("%v", done)
	}
	if err := mend(t.Context(), h, host, cluster, hostsetup.Worker, findings[:1]); err != nil || installed != 1 {
		t.Errorf("installed %d times without need: %v", installed, err)
	}
	problem = ""
	if findings, err := b.health(t.Context(), h, host, hostsetup.Worker); err != nil || len(findings) != 1 {
		t.Errorf("where all is well: %v, %v", findings, err)
	}
	failure = errors.New("connection lost")
	if _, err := b.health(t.Context(), h, host, hostsetup.Worker); !errors.Is(err, failure) {
		t.Errorf("where it cannot be asked: %v", err)
	}
	if err := mend(t.Context(), h, host, cluster, hostsetup.Worker, findings); !errors.Is(err, failure) {
		t.Errorf("where it cannot be installed: %v", err)
	}
}
