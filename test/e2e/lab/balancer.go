package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"plasmacloud.io/plasmacloud/internal/network/linux"
)

const (
	balancerInterval = time.Second
	// balancerMisses is after how many checks in a row that a node fails it gets no more connections.
	balancerMisses = 2
)

// Balancer makes the network's router a load balancer: connections to the node ports at its address go to the nodes in
// turn, to those only whose API server takes connections. It returns the address. It ends with the test.
func (l *Lab) Balancer(t *testing.T, nodes ...*Node) string {
	t.Helper()
	b := &balancer{namespace: l.namespace("switch"), address: gateway(0), misses: make([]int, len(nodes))}
	for _, node := range nodes {
		b.nodes = append(b.nodes, node.IP)
	}
	if err := errors.Join(b.stayBetween(), b.direct(b.nodes)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.run(ctx, t.Logf) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return b.address
}

type balancer struct {
	namespace, address string
	nodes              []string
	misses             []int // of each node, in a row
	used               []string
}

// stayBetween keeps the router from telling nodes of the shorter way to one another: it would lead past it.
func (b *balancer) stayBetween() error {
	return linux.InNamespace(namespacePath(b.namespace), func() error {
		return errors.Join(
			os.WriteFile("/proc/sys/net/ipv4/conf/all/send_redirects", []byte("0"), 0),
			os.WriteFile("/proc/sys/net/ipv4/conf/seg0/send_redirects", []byte("0"), 0),
		)
	})
}

func (b *balancer) run(ctx context.Context, logf func(string, ...any)) {
	tick := time.NewTicker(balancerInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var well []string
		for i, node := range b.nodes {
			if b.misses[i]++; b.answers(ctx, node) {
				b.misses[i] = 0
			}
			if b.misses[i] < balancerMisses {
				well = append(well, node)
			}
		}
		if slices.Equal(well, b.used) || len(well) == 0 {
			continue
		}
		logf("the load balancer uses %s", strings.Join(well, ", "))
		if err := b.direct(well); err != nil {
			logf("%v", err)
		}
	}
}

func (b *balancer) answers(ctx context.Context, node string) bool {
	var err error
	inside := linux.InNamespace(namespacePath(b.namespace), func() error {
		err = dialable(ctx, node+":6443")
		return nil
	})
	return inside == nil && err == nil
}

// direct sends new connections to the nodes, in turn.
func (b *balancer) direct(nodes []string) error {
	var choice []string
	for i, node := range nodes {
		choice = append(choice, fmt.Sprintf("%d : %s", i, node))
	}
	rules := fmt.Sprintf(`table ip balancer
delete table ip balancer
table ip balancer {
	chain to {
		type nat hook prerouting priority dstnat;
		ip daddr %s tcp dport 30000-32767 dnat to numgen inc mod %d map { %s }
	}
	chain from {
		type nat hook postrouting priority srcnat;
		ct status dnat masquerade
	}
}
`, b.address, len(nodes), strings.Join(choice, ", "))
	cmd := exec.Command("nsenter", "--net="+namespacePath(b.namespace), "--", "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("set up load balancer: %w: %s", err, output)
	}
	lost := slices.DeleteFunc(slices.Clone(b.used), func(node string) bool { return slices.Contains(nodes, node) })
	b.used = nodes
	return linux.InNamespace(namespacePath(b.namespace), func() error { return forget(lost) })
}

// forget ends the connections to nodes that are gone: a client that uses a port again must not be led there.
func forget(nodes []string) error {
	for _, node := range nodes {
		filter := &netlink.ConntrackFilter{}
		if err := filter.AddIP(netlink.ConntrackReplySrcIP, net.ParseIP(node)); err != nil {
			return err
		}
		if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, netlink.FAMILY_V4, filter); err != nil {
			return fmt.Errorf("forget connections to %s: %w", node, err)
		}
	}
	return nil
}
