package pki

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Names of the leaf certificates of a server node.
const (
	APIServer              = "apiserver"
	APIServerKubeletClient = "apiserver-kubelet-client"
	APIServerEtcdClient    = "apiserver-etcd-client"
	FrontProxyClient       = "front-proxy-client"
	ControllerManager      = "controller-manager"
	Scheduler              = "scheduler"
	Admin                  = "admin"
	Supervisor             = "supervisor"
	EtcdServer             = "etcd/server"
	EtcdPeer               = "etcd/peer"
	KubeletClient          = "kubelet-client"
	KubeletServer          = "kubelet-server"
	NodeProxy              = "node-proxy"
)

// Users and groups that RBAC refers to.
const (
	// KubeletClientUser is the API server when it calls kubelets. It is in no
	// privileged group: it gets the ClusterRole system:kubelet-api-admin bound.
	KubeletClientUser = "kube-apiserver-kubelet-client"
	// SupervisorUser is the launcher itself.
	SupervisorUser = "system:k8shost"
	// NodeProxyUserPrefix and NodeProxyGroup are the network programs of a
	// node: kube-proxy and the pod network's daemon.
	NodeProxyUserPrefix = "system:node-proxy:"
	NodeProxyGroup      = "k8shost:node-proxies"

	mastersGroup = "system:masters"
	nodesGroup   = "system:nodes"
)

// Server describes the node whose certificates are made: what its names are.
type Server struct {
	NodeName      string
	ClusterDomain string
	// ServiceCIDRs are the ranges of Service addresses; the API server's own
	// Service has the first address of each.
	ServiceCIDRs []netip.Prefix
	NodeIPs      []netip.Addr
	// AdvertiseAddress is where the other nodes find the API server; it may be
	// the zero Addr.
	AdvertiseAddress netip.Addr
	// TLSSANs are further names or addresses of the API server.
	TLSSANs []string
}

// Validate reports everything that cannot be put into a certificate.
func (n Server) Validate() error {
	var errs []error
	if problems := validation.IsDNS1123Subdomain(n.NodeName); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("invalid node name %q: %s", n.NodeName, problems[0]))
	}
	if problems := validation.IsDNS1123Subdomain(n.ClusterDomain); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("invalid cluster domain %q: %s", n.ClusterDomain, problems[0]))
	}
	if len(n.ServiceCIDRs) == 0 {
		errs = append(errs, errors.New("no service CIDR given"))
	}
	for _, cidr := range n.ServiceCIDRs {
		if !cidr.IsValid() || cidr.IsSingleIP() {
			errs = append(errs, fmt.Errorf("invalid service CIDR %q", cidr))
		}
	}
	for _, ip := range n.NodeIPs {
		if !ip.IsValid() {
			errs = append(errs, errors.New("invalid node IP"))
		}
	}
	for _, san := range n.TLSSANs {
		if err := validateSAN(san); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func validateSAN(san string) error {
	if _, err := netip.ParseAddr(san); err == nil {
		return nil
	}
	check := validation.IsDNS1123Subdomain
	if strings.HasPrefix(san, "*.") {
		check = validation.IsWildcardDNS1123Subdomain
	}
	if problems := check(strings.ToLower(san)); len(problems) > 0 {
		return fmt.Errorf("invalid TLS name %q: it is neither an IP address nor a DNS name", san)
	}
	return nil
}

// Leaves are the certificates the server needs; n has to be valid.
func (n Server) Leaves() []Leaf {
	ownNames, ownIPs := n.ownNames()
	apiNames, apiIPs := n.apiNames()
	return []Leaf{
		{Name: APIServer, CA: ClusterCA, CommonName: "kube-apiserver", Server: true, DNSNames: apiNames, IPs: apiIPs},
		{Name: APIServerKubeletClient, CA: ClusterCA, CommonName: KubeletClientUser, Client: true},
		{Name: APIServerEtcdClient, CA: EtcdCA, CommonName: "kube-apiserver-etcd-client", Client: true},
		{Name: FrontProxyClient, CA: FrontProxyCA, CommonName: "front-proxy-client", Client: true},
		{Name: ControllerManager, CA: ClusterCA, CommonName: "system:kube-controller-manager", Client: true},
		{Name: Scheduler, CA: ClusterCA, CommonName: "system:kube-scheduler", Client: true},
		{Name: Admin, CA: ClusterCA, CommonName: "k8shost-admin", Organizations: []string{mastersGroup}, Client: true},
		{Name: Supervisor, CA: ClusterCA, CommonName: SupervisorUser, Organizations: []string{mastersGroup}, Client: true},
		// etcd's gateway calls the member as a client with the serving
		// certificate, and peers use theirs at both ends.
		{Name: EtcdServer, CA: EtcdCA, CommonName: n.NodeName, Client: true, Server: true, DNSNames: ownNames, IPs: ownIPs},
		{Name: EtcdPeer, CA: EtcdCA, CommonName: n.NodeName, Client: true, Server: true, DNSNames: ownNames, IPs: ownIPs},
		{Name: KubeletClient, CA: ClusterCA, CommonName: "system:node:" + n.NodeName, Organizations: []string{nodesGroup}, Client: true},
		{Name: KubeletServer, CA: ClusterCA, CommonName: "system:node:" + n.NodeName, Organizations: []string{nodesGroup}, Server: true, DNSNames: ownNames, IPs: ownIPs},
		{Name: NodeProxy, CA: ClusterCA, CommonName: NodeProxyUserPrefix + n.NodeName, Organizations: []string{NodeProxyGroup}, Client: true},
	}
}

// ownNames are the names of the host itself.
func (n Server) ownNames() ([]string, []netip.Addr) {
	names := []string{"localhost", n.NodeName}
	ips := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	for _, ip := range n.NodeIPs {
		ips = append(ips, ip.WithZone(""))
	}
	if n.AdvertiseAddress.IsValid() {
		ips = append(ips, n.AdvertiseAddress.WithZone(""))
	}
	return names, ips
}

// apiNames are all names under which the API server is called.
func (n Server) apiNames() ([]string, []netip.Addr) {
	names, ips := n.ownNames()
	names = append(names,
		"kubernetes",
		"kubernetes.default",
		"kubernetes.default.svc",
		"kubernetes.default.svc."+n.ClusterDomain,
	)
	for _, cidr := range n.ServiceCIDRs {
		ips = append(ips, cidr.Masked().Addr().Next())
	}
	for _, san := range n.TLSSANs {
		if ip, err := netip.ParseAddr(san); err == nil {
			ips = append(ips, ip.WithZone(""))
		} else {
			names = append(names, san)
		}
	}
	return names, ips
}
