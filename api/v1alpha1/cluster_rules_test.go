package v1alpha1_test

import (
	"slices"
	"strings"
)

func clusterExamples() []example {
	const positive, positiveMemory = "it has to be more than nothing, such as 2 or 500m", "it has to be more than nothing, such as 4Gi"
	sum := strings.Repeat("ab", 32)
	program := func(path, sum string) string {
		return "type: K3s, controlPlane: {replicas: 1}, k3s: {program: {path: '" + path + "', sha256: '" + sum + "'}}"
	}
	list := []example{
		{kind: "Cluster", accepts: []string{"type: Kubeadm, controlPlane: {replicas: 1}", "type: K3s, controlPlane: {replicas: 3}", "type: Hosted, controlPlane: {replicas: 2}", "type: Kubeadm, controlPlane: {replicas: 5}"},
			rejects: []string{"type: Kubeadm", "type: K3s, controlPlane: {replicas: 2}", "type: Kubeadm, controlPlane: {replicas: 4}"},
			field:   "spec.controlPlane.replicas", says: "a control plane on machines runs etcd, which needs an odd number to agree; use 1, 3 or 5"},
		{kind: "Cluster", accepts: []string{"controlPlane: {datastore: {replicas: 3}}"}, rejects: []string{"controlPlane: {datastore: {replicas: 2}}", "controlPlane: {datastore: {replicas: 7}}"},
			field: "spec.controlPlane.datastore.replicas", says: "etcd needs an odd number to agree; use 1, 3 or 5"},
		{kind: "Cluster", accepts: []string{"addons: {ingressNginx: {enabled: true}}, nodeGroups: {edge: {roles: [ingress-nginx]}}", "addons: {ingressNginx: {enabled: false}}"},
			rejects: []string{"addons: {ingressNginx: {enabled: true}}", "addons: {ingressNginx: {enabled: true}}, nodeGroups: {edge: {roles: [front]}, other: {}}"},
			field:   "spec.addons.ingressNginx", says: "it runs on nodes with the role ingress-nginx, and no group has it; add it to the roles of a node group"},
		{kind: "Cluster", accepts: []string{"addons: {ingressNginx: {hosts: [a.example.com]}}", "addons: {ingressNginx: {exposeMethod: LoadBalancer}}"},
			rejects: []string{"addons: {ingressNginx: {exposeMethod: LoadBalancer, hosts: [a.example.com]}}"},
			field:   "spec.addons.ingressNginx.hosts", says: "hosts are only for exposeMethod Proxied; remove them, or change exposeMethod"},
		{kind: "Cluster", accepts: []string{"host: dev.example.com", "host: ''"}, rejects: []string{"host: https://dev.example.com", "host: 'dev.example.com:6443'", "host: Dev"},
			field: "spec.host", says: "this is no host name; it looks like dev.example.com"},
		{kind: "Cluster", accepts: []string{"access: {cidrs: [203.0.113.0/24, '2001:db8::/32']}"}, rejects: []string{"access: {cidrs: [203.0.113.0/24, 203.0.113.7]}"},
			field: "spec.access.cidrs", says: "one of these is no CIDR; they look like 203.0.113.0/24"},
		{kind: "Cluster", accepts: []string{"access: {port: 30000}", "access: {port: 32767}"}, rejects: []string{"access: {port: 6443}", "access: {port: 32768}"},
			field: "spec.access.port", says: "the platform serves APIs at ports from 30000 to 32767; choose one of these, or leave it away to get a free one"},
		{kind: "Cluster", accepts: []string{"type: K3s, controlPlane: {replicas: 1}, k3s: {}"}, rejects: []string{"type: Hosted, k3s: {}", "k3s: {}"},
			field: "spec.k3s", says: "only clusters of type K3s have it; remove it, or make a cluster of that type"},
		{kind: "Cluster", accepts: []string{program("k3s/k3s-v1.33.1", sum), program("/usr/local/bin/k3s", sum)}, rejects: []string{program("../k3s", sum), program("a//b", sum), program("/", sum), program("a/../b", sum)},
			field: "spec.k3s.program.path", says: "this is no plain path; it looks like k3s/k3s-v1.33.1, or /usr/local/bin/k3s"},
		{kind: "Cluster", accepts: []string{program("k3s", sum)}, rejects: []string{program("k3s", "abcd"), program("k3s", strings.ToUpper(sum))},
			field: "spec.k3s.program.sha256", says: "this is no SHA-256; it has 64 hexadecimal digits in lower case, as sha256sum prints them"},
		{kind: "Cluster", accepts: []string{"nodeGroups: {a: {}, gpu-2: {}}"}, rejects: []string{"nodeGroups: {Workers: {}}", "nodeGroups: {w-: {}}", "nodeGroups: {a-group-with-21-letters: {}}"},
			field: "spec.nodeGroups", says: "a group's name has 1 to 20 lower-case letters, digits and '-', beginning with a letter and not ending with '-'"},
	}
	for path, wrap := range map[string]func(string) string{
		"apiServer":           func(r string) string { return "apiServer: {resources: {" + r + "}}" },
		"controllerManager":   func(r string) string { return "controllerManager: {resources: {" + r + "}}" },
		"scheduler":           func(r string) string { return "scheduler: {resources: {" + r + "}}" },
		"konnectivity.server": func(r string) string { return "konnectivity: {server: {resources: {" + r + "}}}" },
	} {
		component := func(resources string) string { return "controlPlane: {" + wrap(resources) + "}" }
		list = append(list,
			example{kind: "Cluster", accepts: []string{component("cpu: 2"), component("cpu: 0.5m"), component("cpu: '0.5'")}, rejects: []string{component("cpu: 0"), component("cpu: '-1'")},
				field: "spec.controlPlane." + path + ".resources.cpu", says: positive},
			example{kind: "Cluster", accepts: []string{component("memory: 1Gi")}, rejects: []string{component("memory: 0Gi")},
				field: "spec.controlPlane." + path + ".resources.memory", says: positiveMemory})
	}
	return slices.Concat(list, addressExamples())
}

func addressExamples() []example {
	const noCIDR = "this is no CIDR, or has host bits set; it looks like "
	own := func(addresses string) string { return "clusterNetwork: {" + addresses + "}" }
	return []example{
		{kind: "Cluster", accepts: []string{own("podCIDR: 172.20.0.0/16"), own("podCIDR: 'fd00:1::/56', serviceCIDR: 'fd00:2::/112'")}, rejects: []string{own("podCIDR: 172.20.0.1/16"), own("podCIDR: pods")},
			field: "spec.clusterNetwork.podCIDR", says: noCIDR + "192.168.0.0/16"},
		{kind: "Cluster", accepts: []string{own("podCIDR: 192.168.0.0/24"), own("podCIDR: 11.0.0.0/8")}, rejects: []string{own("podCIDR: 192.168.0.0/25"), own("podCIDR: 32.0.0.0/7"), own("podCIDR: 'fd00::/65', serviceCIDR: 'fd01::/112'")},
			field: "spec.clusterNetwork.podCIDR", says: "every node takes a /24 (IPv6: /64) of it; use a range from /8 to /24 (IPv6: /48 to /64)"},
		{kind: "Cluster", accepts: []string{own("serviceCIDR: 10.100.0.0/16")}, rejects: []string{own("serviceCIDR: 10.100.0.1/16"), own("serviceCIDR: 10.100.0.0")},
			field: "spec.clusterNetwork.serviceCIDR", says: noCIDR + "10.96.0.0/12"},
		{kind: "Cluster", accepts: []string{own("serviceCIDR: 10.0.0.0/12"), own("serviceCIDR: 10.0.0.0/28")}, rejects: []string{own("serviceCIDR: 10.0.0.0/11"), own("serviceCIDR: 10.0.0.0/29")},
			field: "spec.clusterNetwork.serviceCIDR", says: "Kubernetes takes services' ranges from /12 to /28 (IPv6: /108 to /124); choose one of these sizes"},
		{kind: "Cluster", accepts: []string{own("podCIDR: 10.0.0.0/16, serviceCIDR: 10.1.0.0/16")}, rejects: []string{own("podCIDR: 10.96.0.0/16"), own("podCIDR: 10.0.0.0/8, serviceCIDR: 10.1.0.0/16")},
			field: "spec.clusterNetwork.serviceCIDR", says: "it overlaps with podCIDR; choose two ranges apart"},
		{kind: "Cluster", accepts: []string{own("podCIDR: 'fd00:1::/56', serviceCIDR: 'fd00:2::/112'")}, rejects: []string{own("podCIDR: 'fd00:1::/56'")},
			field: "spec.clusterNetwork.serviceCIDR", says: "podCIDR and serviceCIDR are of different families; choose both IPv4 or both IPv6"},
		{kind: "Cluster", accepts: []string{own("domain: k8s.example.com")}, rejects: []string{own("domain: cluster_local"), own("domain: ''")},
			field: "spec.clusterNetwork.domain", says: "this is no domain; it looks like cluster.local"},
	}
}

func clusterTransitions() []example {
	const fixed = "it cannot change; make a new cluster"
	const oneOrSeveral = "a single server keeps its objects in SQLite and several keep them in etcd, and one does not become the other; make a new cluster"
	return []example{
		{kind: "Cluster", from: "type: Hosted", accepts: []string{"tenancy: Shared"}, rejects: []string{"type: Fake"}, field: "spec.type", says: fixed},
		{kind: "Cluster", from: "access: {port: 30001}", accepts: []string{"access: {port: 30001, cidrs: [203.0.113.0/24]}"}, rejects: []string{"access: {port: 30002}", "access: {}"},
			field: "spec.access.port", says: "it cannot change, as the nodes and the users of the cluster know it; make a new cluster"},
		{kind: "Cluster", from: "network: a", accepts: []string{"network: a, host: x"}, rejects: []string{"network: b", ""}, field: "spec.network", says: fixed},
		{kind: "Cluster", from: "storageClass: fast", accepts: []string{"storageClass: fast, host: x"}, rejects: []string{""}, field: "spec.storageClass", says: fixed},
		{kind: "Cluster", from: "controlPlane: {datastore: {mode: Dedicated}}", accepts: []string{"controlPlane: {datastore: {mode: Dedicated, replicas: 3}}"},
			rejects: []string{"controlPlane: {datastore: {mode: Shared}}", ""}, field: "spec.controlPlane.datastore.mode", says: fixed},
		{kind: "Cluster", from: "clusterNetwork: {podCIDR: 172.20.0.0/16}", accepts: []string{"clusterNetwork: {podCIDR: 172.20.0.0/16}, host: x"}, rejects: []string{"", "clusterNetwork: {podCIDR: 172.21.0.0/16}"},
			field: "spec.clusterNetwork.podCIDR", says: fixed},
		{kind: "Cluster", from: "clusterNetwork: {serviceCIDR: 172.20.0.0/16}", accepts: []string{"clusterNetwork: {serviceCIDR: 172.20.0.0/16}, host: x"}, rejects: []string{""},
			field: "spec.clusterNetwork.serviceCIDR", says: fixed},
		{kind: "Cluster", from: "clusterNetwork: {domain: a.b}", accepts: []string{"clusterNetwork: {domain: a.b}, host: x"}, rejects: []string{""}, field: "spec.clusterNetwork.domain", says: fixed},
		{kind: "Cluster", from: "type: K3s, controlPlane: {replicas: 3}", accepts: []string{"type: K3s, controlPlane: {replicas: 5}"}, rejects: []string{"type: K3s, controlPlane: {replicas: 1}"},
			field: "spec.controlPlane.replicas", says: oneOrSeveral},
		{kind: "Cluster", from: "type: K3s, controlPlane: {replicas: 1}", accepts: []string{"type: K3s, controlPlane: {replicas: 1}, host: x"}, rejects: []string{"type: K3s, controlPlane: {replicas: 3}"},
			field: "spec.controlPlane.replicas", says: oneOrSeveral},
		{kind: "Cluster", from: "type: Kubeadm, controlPlane: {replicas: 1}", accepts: []string{"type: Kubeadm, controlPlane: {replicas: 3}"}, rejects: []string{"type: Kubeadm, controlPlane: {replicas: 2}"},
			field: "spec.controlPlane.replicas", says: "a control plane on machines runs etcd, which needs an odd number to agree; use 1, 3 or 5"},
		{kind: "Cluster", from: "clusterNetwork: {cni: none}", accepts: []string{"clusterNetwork: {cni: none}, host: x"}, rejects: []string{""}, field: "spec.clusterNetwork.cni", says: fixed},
	}
}

func versionExamples() []example {
	const running = "the control plane runs another minor version (status.version), and Kubernetes goes up one at a time and never back; " +
		"wait for an upgrade under way, or name the running minor version or the next one"
	return []example{
		{kind: "Cluster", accepts: []string{"version: v1.36", "version: v1.36.3", "version: ''"}, rejects: []string{"version: '1.36'", "version: latest", "version: v2.0", "version: v1.36.3-rc.1"},
			field: "spec.version", says: "this is no version; it looks like v1.36 or v1.36.3"},
		{kind: "Cluster", from: "version: v1.36", accepts: []string{"version: v1.36.3"}, rejects: []string{"", "version: ''"},
			field: "spec.version", says: "it cannot be taken away once it is set; name the version to run"},
		{kind: "Cluster", from: "version: v1.35.4", accepts: []string{"version: v1.36", "version: v1.35"}, rejects: []string{"version: v1.34.9", "version: v1.9"},
			field: "spec.version", says: "Kubernetes cannot go back to an older minor version; restore a backup into a new cluster"},
		{kind: "Cluster", from: "version: v1.34", accepts: []string{"version: v1.35.4"}, rejects: []string{"version: v1.36", "version: v1.100"},
			field: "spec.version", says: "Kubernetes goes up one minor version at a time; upgrade to the next one first"},
		{kind: "Cluster", from: "version: v1.36.9", accepts: []string{"version: v1.36.10", "version: v1.36", "version: v1.37.0"}, rejects: []string{"version: v1.36.8"},
			field: "spec.version", says: "Kubernetes does not go back to an older patch version; name this one or a newer one"},
		// Nothing was named, and v1.36.3 was the newest; or an upgrade to v1.36 has not come to its end.
		{kind: "Cluster", from: "host: x", running: "v1.36.3", accepts: []string{"version: v1.36", "version: v1.37", "host: z"}, rejects: []string{"version: v1.35", "version: v1.38"},
			field: "spec.version", says: running},
		{kind: "Cluster", from: "version: v1.36", running: "v1.35.4-eks-1", accepts: []string{"version: v1.36.3", "version: v1.36, host: x"}, rejects: []string{"version: v1.37"},
			field: "spec.version", says: running},
	}
}
