// Package config is the configuration of `k8shost server` and `k8shost agent`: every flag
// under the name k3s gives it, what it may be, and what it is when nothing is said.
//
// The way through it is always the same: AddFlags, parse the command line, Load (which
// adds the environment and the YAML file below it), Complete (which fills in what the host
// tells), Validate (which names everything that is wrong at once). After that a Server or
// Agent can be relied upon, and its methods give the parsed forms. Nothing here starts,
// writes or listens to anything; secrets print as [redacted].
package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"plasmacloud.io/plasmacloud/internal/k8shost/host"
)

// Where things are unless told otherwise.
const (
	DefaultFile    = "/etc/k8shost/config.yaml"
	DefaultDataDir = "/var/lib/k8shost"
)

// Node is what servers and agents have in common.
type Node struct {
	ConfigFile        string
	DataDir           string
	ReleaseDir        string
	KubernetesVersion string
	LogLevel          string
	LogFile           string

	// ServerURL is the server to join.
	ServerURL string
	// Token and TokenFile say the token or where it is; ReadToken gives the one that counts.
	Token     Secret
	TokenFile string

	NodeName      string
	NodeIP        netip.Addr
	NodeLabels    []string
	NodeTaints    []string
	MaxPods       int
	KubeletArgs   Args
	KubeProxyArgs Args
}

// Agent configures a node that runs pods and no control plane.
type Agent struct {
	Node
	LBServerPort int
}

// Server configures a node that runs a control plane, and pods unless DisableAgent is set.
type Server struct {
	Node

	ClusterInit             bool
	ClusterReset            bool
	ClusterResetRestorePath string

	Datastore                string
	DatastoreEndpoint        Secret
	DatastoreCAFile          string
	DatastoreCertFile        string
	DatastoreKeyFile         string
	EtcdSnapshotRetention    int
	EtcdSnapshotScheduleCron string

	Disable              []string
	DisableAgent         bool
	DisableNetworkPolicy bool
	FlannelBackend       string

	ClusterDomain        string
	ClusterCIDR          netip.Prefix
	ServiceCIDR          netip.Prefix
	ClusterDNS           netip.Addr
	ServiceNodePortRange utilnet.PortRange

	BindAddress      netip.Addr
	AdvertiseAddress netip.Addr
	HTTPSListenPort  int
	TLSSANs          []string

	WebhookConfigFile string
	WebhookCacheTTL   time.Duration

	AuditLogMaxAge    int
	AuditLogMaxBackup int
	AuditLogMaxSize   int

	WriteKubeconfig     string
	WriteKubeconfigMode FileMode

	KubeAPIServerArgs         Args
	KubeControllerManagerArgs Args
	KubeSchedulerArgs         Args
	EtcdArgs                  Args
}

// Complete fills in what was left open from what the host tells, and brings paths and component
// arguments into one form.
func (a *Agent) Complete(id host.Identity) error { return a.complete(id) }

// Complete fills in what was left open from what the host tells, and brings paths and component
// arguments into one form.
func (s *Server) Complete(id host.Identity) error {
	if err := s.complete(id); err != nil {
		return err
	}
	if !s.AdvertiseAddress.IsValid() {
		s.AdvertiseAddress = s.NodeIP
		if reachable(s.BindAddress) {
			s.AdvertiseAddress = s.BindAddress
		}
	}
	if !s.ClusterDNS.IsValid() && s.ServiceCIDR.IsValid() {
		s.ClusterDNS = nth(s.ServiceCIDR, 10)
	}
	// k3s has a flag of its own for it, beside the list.
	if s.DisableNetworkPolicy && !s.Disabled(NetworkPolicy) {
		s.Disable = append(s.Disable, NetworkPolicy)
	}
	for _, args := range []Args{s.KubeAPIServerArgs, s.KubeControllerManagerArgs, s.KubeSchedulerArgs, s.EtcdArgs} {
		args.normalize()
	}
	return absolute(&s.ClusterResetRestorePath, &s.DatastoreCAFile, &s.DatastoreCertFile, &s.DatastoreKeyFile,
		&s.WebhookConfigFile, &s.WriteKubeconfig)
}

func (n *Node) complete(id host.Identity) error {
	if n.NodeName == "" {
		n.NodeName = strings.ToLower(id.Hostname)
	}
	if !n.NodeIP.IsValid() {
		n.NodeIP = id.Address
	}
	n.KubeletArgs.normalize()
	n.KubeProxyArgs.normalize()
	return absolute(&n.DataDir, &n.ReleaseDir, &n.TokenFile, &n.LogFile)
}

func absolute(paths ...*string) error {
	for _, path := range paths {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("resolve path %s: %w", *path, err)
		}
		*path = abs
	}
	return nil
}

// nth is the address that many after the first of a range.
func nth(p netip.Prefix, n int) netip.Addr {
	addr := p.Masked().Addr()
	for range n {
		addr = addr.Next()
	}
	return addr
}
