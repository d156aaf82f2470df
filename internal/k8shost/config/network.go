package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/internal/k8shost/host"
)

const loopback = "127.0.0.1"

// Ports are those an agent listens on.
func (a *Agent) Ports() []host.Port {
	return append([]host.Port{{Number: a.LBServerPort, Address: loopback, For: "--lb-server-port"}}, nodePorts(true)...)
}

// Ports are those a server listens on.
func (s *Server) Ports() []host.Port {
	address := ""
	if s.BindAddress.IsValid() && !s.BindAddress.IsUnspecified() {
		address = s.BindAddress.String()
	}
	ports := []host.Port{
		{Number: s.HTTPSListenPort, Address: address, For: "--https-listen-port"},
		{Number: 10257, Address: loopback, For: "kube-controller-manager"},
		{Number: 10259, Address: loopback, For: "kube-scheduler"},
	}
	if s.DatastoreKind() == EmbeddedEtcd {
		ports = append(ports, host.Port{Number: 2379, For: "etcd's clients"}, host.Port{Number: 2380, For: "etcd's peers"})
	}
	if !s.DisableAgent {
		ports = append(ports, nodePorts(!s.Disabled("kube-proxy"))...)
	}
	return ports
}

func nodePorts(proxy bool) []host.Port {
	ports := []host.Port{
		{Number: 10250, For: "kubelet"},
		{Number: 10248, Address: loopback, For: "kubelet's health"},
	}
	if proxy {
		ports = append(ports, host.Port{Number: 10249, Address: loopback, For: "kube-proxy's metrics"}, host.Port{Number: 10256, For: "kube-proxy's health"})
	}
	return ports
}

// collisions finds two uses of one port.
func (p *problems) collisions(ports []host.Port) {
	taken := map[int]string{}
	for _, port := range ports {
		if other, ok := taken[port.Number]; ok {
			flag, component := other, port.For
			if strings.HasPrefix(component, "--") {
				flag, component = component, other
			}
			p.add("%s %d: this port is %s: choose another one", flag, port.Number, component)
		}
		taken[port.Number] = port.For
	}
}

func (p *problems) port(flag string, port int) {
	if port < 1 || port > 65535 {
		p.add("--%s %d: give a port between 1 and 65535", flag, port)
	}
}

func (s *Server) validateRanges(p *problems) {
	const smallestService, largestService, largestCluster = 28, 12, 8
	mask := s.NodeMask()
	cluster := p.cidr("cluster-cidr", s.ClusterCIDR)
	service := p.cidr("service-cidr", s.ServiceCIDR)
	if cluster && s.ClusterCIDR.Bits() > mask {
		p.add("--cluster-cidr %s: too small: a node takes a /%d of it: use a /16, or at least a /%d", s.ClusterCIDR, mask, mask)
	}
	if cluster && s.ClusterCIDR.Bits() < largestCluster {
		p.add("--cluster-cidr %s: too large: use a /%d at most", s.ClusterCIDR, largestCluster)
	}
	if room := 1<<(32-mask) - 2; s.MaxPods > room {
		p.add("--max-pods %d: a node's /%d holds %d addresses: lower it, or widen it by --kube-controller-manager-arg node-cidr-mask-size=%d", s.MaxPods, mask, room, mask-1)
	}
	if service && (s.ServiceCIDR.Bits() > smallestService || s.ServiceCIDR.Bits() < largestService) {
		p.add("--service-cidr %s: use a range between a /%d and a /%d", s.ServiceCIDR, largestService, smallestService)
		service = false
	}
	if cluster && service && s.ClusterCIDR.Overlaps(s.ServiceCIDR) {
		p.add("--cluster-cidr %s and --service-cidr %s overlap: give ranges apart from each other", s.ClusterCIDR, s.ServiceCIDR)
	}
	p.apart("cluster-cidr", s.ClusterCIDR, s.NodeIP)
	p.apart("service-cidr", s.ServiceCIDR, s.NodeIP)
	if service {
		s.validateDNS(p)
	}
	s.validateNodePorts(p)
}

// apart wants the node's own address outside of a range: it could not be reached otherwise.
func (p *problems) apart(flag string, prefix netip.Prefix, node netip.Addr) {
	if prefix.IsValid() && prefix.Contains(node) {
		p.add("--%s %s holds the node's own address %s (--node-ip): give another range", flag, prefix, node)
	}
}

// NodeMask is the length of the range that a node gets of --cluster-cidr.
func (s *Server) NodeMask() int {
	if value, ok := s.KubeControllerManagerArgs.Get("node-cidr-mask-size"); ok {
		if mask, err := strconv.Atoi(value); err == nil && mask >= 16 && mask <= 30 {
			return mask
		}
	}
	return 24
}

// cidr reports whether a range can be used at all.
func (p *problems) cidr(flag string, prefix netip.Prefix) bool {
	unusable := []string{"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"}
	switch {
	case !prefix.IsValid():
		p.add("--%s is empty: give a range such as 10.42.0.0/16", flag)
		return false
	case !prefix.Addr().Is4():
		p.add("--%s %s: PrismNET's pod network is IPv4: give a range such as 10.42.0.0/16", flag, prefix)
		return false
	case prefix.Masked() != prefix:
		p.add("--%s %s has bits set after its length: did you mean %s?", flag, prefix, prefix.Masked())
		return false
	}
	for _, text := range unusable {
		if netip.MustParsePrefix(text).Overlaps(prefix) {
			p.add("--%s %s overlaps %s, which is reserved: give a private range such as 10.42.0.0/16", flag, prefix, text)
			return false
		}
	}
	return true
}

func (s *Server) validateDNS(p *problems) {
	if s.Disabled("coredns") {
		return // the address is then somebody else's
	}
	switch {
	case !s.ServiceCIDR.Contains(s.ClusterDNS):
		p.add("--cluster-dns %s lies outside of --service-cidr %s: give an address in it", s.ClusterDNS, s.ServiceCIDR)
	case s.ClusterDNS == nth(s.ServiceCIDR, 0) || s.ClusterDNS == nth(s.ServiceCIDR, 1):
		p.add("--cluster-dns %s: the first addresses of --service-cidr are taken: use %s", s.ClusterDNS, nth(s.ServiceCIDR, 10))
	}
}

func (s *Server) validateNodePorts(p *problems) {
	ports := s.ServiceNodePortRange
	if ports.Size < 1 || ports.Base < 1 || ports.Base+ports.Size-1 > 65535 {
		p.add("--service-node-port-range %s: give two ports between 1 and 65535, such as 30000-32767", ports)
		return
	}
	var held []string
	for _, port := range s.Ports() {
		if ports.Contains(port.Number) {
			held = append(held, fmt.Sprintf("%d (%s)", port.Number, port.For))
		}
	}
	if len(held) > 0 {
		p.add("--service-node-port-range %s holds ports that are taken: %s: give a range without them", ports, strings.Join(held, ", "))
	}
}

func (s *Server) validateAPI(p *problems) {
	p.port("https-listen-port", s.HTTPSListenPort)
	switch b := s.BindAddress; {
	case !b.IsValid():
		p.add("--bind-address is empty: give 0.0.0.0 for all addresses")
	case !b.IsUnspecified() && !reachable(b):
		p.add("--bind-address %s: pods and other nodes could not reach the API server: give 0.0.0.0 or an IPv4 address of this host", b)
	}
	// What is wrong with the node's address is told about --node-ip.
	if a := s.AdvertiseAddress; a != s.NodeIP && !reachable(a) {
		p.add("--advertise-address %s: pods and other nodes could not reach the API server there: give an IPv4 address of this host", a)
	}
	if u, err := url.Parse(s.ServerURL); err == nil && s.ServerURL != "" &&
		u.Host == net.JoinHostPort(s.AdvertiseAddress.String(), strconv.Itoa(s.HTTPSListenPort)) {
		p.add("--server %s is this server itself (--advertise-address, --https-listen-port): name another one, or start the cluster with --cluster-init", s.ServerURL)
	}
	for _, san := range s.TLSSANs {
		if _, err := netip.ParseAddr(san); err != nil &&
			len(validation.IsDNS1123Subdomain(san)) > 0 && len(validation.IsWildcardDNS1123Subdomain(san)) > 0 {
			p.add("--tls-san %q: neither a host name nor an address: leave out scheme and port", san)
		}
	}
	if why := validation.IsDNS1123Subdomain(s.ClusterDomain); len(why) > 0 {
		p.add("--cluster-domain %q: give a DNS domain such as cluster.local", s.ClusterDomain)
	}
	s.validateWebhook(p)
	p.natural("audit-log-maxage", s.AuditLogMaxAge)
	p.natural("audit-log-maxbackup", s.AuditLogMaxBackup)
	p.natural("audit-log-maxsize", s.AuditLogMaxSize)
}

func (p *problems) natural(flag string, value int) {
	if value < 0 {
		p.add("--%s %d: give a number that is not negative", flag, value)
	}
}

// reachable reports whether other nodes and pods can reach an address, if it is this host's.
func reachable(a netip.Addr) bool { return a.Is4() && a.IsGlobalUnicast() }

func (s *Server) validateWebhook(p *problems) {
	if s.WebhookCacheTTL < 0 {
		p.add("--authentication-token-webhook-cache-ttl %s: give a time that is not negative", s.WebhookCacheTTL)
	}
	if s.WebhookConfigFile == "" {
		return
	}
	// The API server would die of it, with its reason in a log.
	config, err := clientcmd.LoadFromFile(s.WebhookConfigFile)
	if err == nil {
		err = clientcmd.ResolveLocalPaths(config) // relative to the file, as the API server has it
	}
	if err == nil {
		err = clientcmd.ConfirmUsable(*config, "")
	}
	if err != nil {
		p.add("--authentication-token-webhook-config-file %s: %w: give a kubeconfig file", s.WebhookConfigFile, err)
	}
}
