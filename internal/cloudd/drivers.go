package cloudd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/pod"
	machinessh "plasmacloud.io/plasmacloud/internal/machine/ssh"
	"plasmacloud.io/plasmacloud/internal/securitygroup"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// drivers are where machines come from, and how they are worked on.
type drivers struct {
	// pool has the connections to all machines.
	pool *remote.Pool
	// pods are machines that are pods of the management cluster, hosts those of inventories.
	pods  *pod.Driver
	hosts *machinessh.Driver
	// cleaners know what was made on hosts.
	cleaners *cleaners
}

// newDrivers makes the drivers, which end with the daemon.
func (d *Daemon) newDrivers() (*drivers, error) {
	api, err := kubernetes.NewForConfig(d.manager.GetConfig())
	if err != nil {
		return nil, err
	}
	made := &drivers{pool: remote.NewPool(remote.Config{}), cleaners: &cleaners{}}
	made.pods = pod.New(api, clock.RealClock{}, pod.Config{PullPolicy: corev1.PullPolicy(d.config.ImagePullPolicy), SSH: made.pool})
	made.hosts = machinessh.New(machinessh.Config{
		Inventory: inventory{Reader: d.manager.GetClient(), api: api}, Records: machinessh.NewRecords(api, d.config.Namespace),
		Pool: made.pool, Cleaner: made.cleaners, Clock: clock.RealClock{}, Log: d.log, Architectures: []string{runtime.GOARCH}, Fits: fits,
	})
	return made, d.manager.Add(always(func(ctx context.Context) error {
		<-ctx.Done()
		made.hosts.Close()
		made.pool.Close()
		return nil
	}))
}

// byProvider are the drivers by the provider of the account that machines come from.
func (d *drivers) byProvider() map[v1alpha1.Provider]machine.Driver {
	return map[v1alpha1.Provider]machine.Driver{v1alpha1.ProviderLocal: d.pods, v1alpha1.ProviderSSH: d.hosts}
}

// reacher is the driver whose machines are of an account of that provider.
func (d *drivers) reacher(provider v1alpha1.Provider) (machine.Reacher, error) {
	reacher, ok := d.byProvider()[provider].(machine.Reacher)
	if !ok {
		return nil, fmt.Errorf("machines of accounts of provider %s cannot be worked on", provider)
	}
	return reacher, nil
}

// fits tells whether a host is one for the machine: a host that has a label of the machine's is only for machines with
// the same value, such as those of one cluster, or of one node group.
func fits(spec machine.Spec, host machinessh.Host) bool {
	for key, value := range spec.Labels {
		if wants, ok := host.Labels[key]; ok && wants != value {
			return false
		}
	}
	return true
}

// cleaners are everybody who has made something on hosts, and knows how to remove it.
type cleaners struct {
	mu  sync.Mutex
	all []hostsetup.Distribution
}

var _ machinessh.Cleaner = (*cleaners)(nil)

func (c *cleaners) add(distributions ...hostsetup.Distribution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, distributions...)
}

// Clean implements machinessh.Cleaner. All clean, also where one of them cannot: what is left is little.
func (c *cleaners) Clean(ctx context.Context, host *remote.Client) error {
	c.mu.Lock()
	all := c.all
	c.mu.Unlock()
	var problems []error
	for _, each := range all {
		problems = append(problems, each.Clean(ctx, host))
	}
	return errors.Join(append(problems, securitygroup.Remove(ctx, host))...)
}
