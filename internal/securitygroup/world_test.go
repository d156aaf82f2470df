package securitygroup_test

import (
	"context"
	_ "embed"
	"net"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/api"
	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/network/netlab"
	"plasmacloud.io/plasmacloud/internal/securitygroup"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
)

//go:embed testdata/systemctl
var systemctl string

// Addresses in the world: the machine's, those of somebody outside, and a pod's on the machine.
const (
	machineAddress = "10.90.0.2"
	outsideAddress = "10.90.0.1"
	officeAddress  = "10.90.0.77"
	podGateway     = "192.168.5.1"
	podAddress     = "192.168.5.5"
	podCIDR        = "192.168.0.0/16"
)

// world is a machine with a pod, and a place outside of it from where its SSH is reached: through its firewall.
type world struct {
	*testing.T
	host         *sshtest.Host
	client       *remote.Client
	machine      *netlab.Namespace
	outside, pod *netlab.Namespace
}

func newWorld(t *testing.T, sshPort int) *world {
	t.Helper()
	w := &world{T: t, host: sshtest.Start(t), outside: netlab.New(t), pod: netlab.New(t)}
	w.host.Do("cat >/usr/local/sbin/systemctl <<'END'\n" + systemctl + "END\nchmod 755 /usr/local/sbin/systemctl")
	w.machine = netlab.Open(t, w.host.Network())
	w.machine.Sysctl("net/ipv4/ip_forward", "1")
	netlab.Connect(t, 1500, netlab.End{Namespace: w.machine, Interface: "eth0", Address: machineAddress + "/24"},
		netlab.End{Namespace: w.outside, Interface: "eth0", Address: outsideAddress + "/24"})
	netlab.Connect(t, 1500, netlab.End{Namespace: w.machine, Interface: "pod0", Address: podGateway + "/24"},
		netlab.End{Namespace: w.pod, Interface: "eth0", Address: podAddress + "/24"})
	w.pod.Route("default", podGateway)
	w.host.Listen(sshPort)
	key, err := remote.ParseKey(w.host.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := remote.NewPool(remote.Config{DialTimeout: 3 * time.Second, Attempts: 2, Backoff: 10 * time.Millisecond,
		Dial: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
			err = w.outside.Try(func() error {
				conn, err = (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(machineAddress, port(sshPort)))
				return err
			})
			return conn, err
		}})
	t.Cleanup(pool.Close)
	w.client = pool.Client(remote.Host{Address: machineAddress, Key: key, HostKey: w.host.HostKey})
	return w
}

func (w *world) install(policy securitygroup.Policy) {
	w.Helper()
	if err := securitygroup.Install(w.Context(), w.client, policy); err != nil {
		w.Fatal(err)
	}
}

// check looks at the policy, whatever it is.
func (w *world) check() string {
	w.Helper()
	problem, err := securitygroup.Check(w.Context(), w.client, nil)
	if err != nil {
		w.Fatal(err)
	}
	return problem
}

// opens asserts that TCP or UDP ports of the machine answer somebody, or do not.
func (w *world) opens(who *netlab.Namespace, protocol string, answer bool, ports ...int) {
	w.Helper()
	var probes sync.WaitGroup
	for _, p := range ports {
		probes.Go(func() {
			address := net.JoinHostPort(machineAddress, port(p))
			var err error
			switch {
			case answer && protocol == "tcp":
				_, err = who.SendTCP(address, 1)
			case answer:
				_, err = who.SendUDP(address, 1)
			case protocol == "tcp" && !who.BlockedTCP(address), protocol == "udp" && !who.BlockedUDP(address):
				w.Errorf("%s port %d answers", protocol, p)
			}
			if err != nil {
				w.Errorf("%s port %d does not answer: %v", protocol, p, err)
			}
		})
	}
	probes.Wait()
}

// ping tells whether the machine answers an echo request.
func (w *world) ping() error {
	return w.outside.Try(func() error {
		conn, err := net.Dial("ip4:icmp", machineAddress)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
			return err
		}
		// An echo request with identifier 1: type, code, checksum, identifier, number.
		if _, err := conn.Write([]byte{8, 0, 0xf7, 0xfe, 0, 1, 0, 0}); err != nil {
			return err
		}
		_, err = conn.Read(make([]byte, 100))
		return err
	})
}

// defaultRules are those that a network has where none are given.
func defaultRules(t *testing.T) []v1alpha1.SecurityRule {
	t.Helper()
	definitions, err := api.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	var rules []v1alpha1.SecurityRule
	for _, definition := range definitions {
		if definition.Spec.Names.Kind == "Network" {
			spec := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			if err := yaml.UnmarshalStrict(spec.Properties["clusterRules"].Default.Raw, &rules); err != nil {
				t.Fatal(err)
			}
		}
	}
	return rules
}

// defaultPolicy is that of a cluster named dev.
func defaultPolicy(t *testing.T) securitygroup.Policy {
	t.Helper()
	network := v1alpha1.NetworkSpec{ClusterRules: defaultRules(t)}
	return securitygroup.Policy{Group: network.SecurityGroupOf("dev"), PodCIDR: podCIDR}
}
