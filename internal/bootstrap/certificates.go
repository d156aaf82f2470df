package bootstrap

import (
	"net/netip"
	"slices"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// Names of the certificates that hosted control planes have besides those of any server.
const (
	SuperAdmin         = "super-admin"
	KonnectivityClient = "konnectivity-client"
	KonnectivityTunnel = "konnectivity-server"
)

// Users and groups that RBAC refers to.
const (
	// AdminGroup gets the ClusterRole cluster-admin bound, and can be unbound; SuperAdmin is above RBAC.
	AdminGroup = "plasmacloud:cluster-admins"
	// KonnectivityUser asks whose the agents' tokens are.
	KonnectivityUser = "system:konnectivity-server"

	mastersGroup = "system:masters"
)

// HostedPlane is a control plane that runs as pods, as its certificates name it.
type HostedPlane struct {
	// Name and Namespace are its Service's on the management cluster, and ServiceAddress that one's address there.
	Name, Namespace string
	ServiceAddress  netip.Addr
	// Address is where everybody reaches it, under the DNS name Host if that is given.
	Address netip.Addr
	Host    string
	// ClusterDomain and ServiceCIDR are the cluster's own.
	ClusterDomain string
	ServiceCIDR   netip.Prefix
}

// Leaves are the certificates of a hosted control plane.
func (h HostedPlane) Leaves() ([]pki.Leaf, error) {
	service := h.Name + "." + h.Namespace
	names := []string{service, service + ".svc", service + ".svc.cluster.local"}
	if h.ServiceAddress.IsValid() {
		names = append(names, h.ServiceAddress.String())
	}
	if h.Host != "" {
		names = append(names, h.Host)
	}
	server := pki.Server{
		NodeName: h.Name, ClusterDomain: h.ClusterDomain, ServiceCIDRs: []netip.Prefix{h.ServiceCIDR},
		AdvertiseAddress: h.Address, TLSSANs: names,
	}
	if err := server.Validate(); err != nil {
		return nil, err
	}
	// The datastore and the nodes have certificates of their own.
	wanted := []string{pki.APIServer, pki.APIServerKubeletClient, pki.FrontProxyClient, pki.ControllerManager, pki.Scheduler}
	leaves := slices.DeleteFunc(server.Leaves(), func(l pki.Leaf) bool { return !slices.Contains(wanted, l.Name) })
	tunnel := pki.Leaf{Name: KonnectivityTunnel, CA: pki.ClusterCA, CommonName: KonnectivityTunnel, Server: true, IPs: []netip.Addr{h.Address}}
	if h.Host != "" {
		tunnel.DNSNames = []string{h.Host}
	}
	return append(leaves, tunnel,
		pki.Leaf{Name: KonnectivityClient, CA: pki.ClusterCA, CommonName: KonnectivityUser, Client: true},
		pki.Leaf{Name: pki.Admin, CA: pki.ClusterCA, CommonName: "plasmacloud:admin", Organizations: []string{AdminGroup}, Client: true},
		pki.Leaf{Name: SuperAdmin, CA: pki.ClusterCA, CommonName: "plasmacloud:super-admin", Organizations: []string{mastersGroup}, Client: true},
	), nil
}
