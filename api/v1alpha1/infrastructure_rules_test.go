package v1alpha1_test

import "slices"

const (
	hosts = "provider: SSH, ssh: {trustOnFirstUse: true, hosts: [{address: 192.0.2.1}]}"
	aws   = `provider: AWS, region: eu-west-1, aws: {roleARN: "arn:aws:iam::123456789012:role/cloud"}`
	gcp   = "provider: GCP, region: europe-west1, credentials: {name: key}, gcp: {projectID: shop-123456}"
	azure = "provider: Azure, region: westeurope, credentials: {name: key}, azure: " + ids
	ids   = "{subscriptionID: 00000000-0000-0000-0000-000000000001, tenantID: 00000000-0000-0000-0000-000000000002}"
)

func accountExamples() []example {
	const uuid = "this is no UUID; it looks like 00000000-0000-0000-0000-000000000000"
	return slices.Concat(sshExamples(), providerExamples(), []example{
		{kind: "Account", accepts: []string{aws, `provider: AWS, region: us-gov-east-1, aws: {roleARN: "arn:aws-us-gov:iam::123456789012:role/a/b"}`},
			rejects: []string{`provider: AWS, region: eu-west-1, aws: {roleARN: "arn:aws:iam::123456789012:user/cloud"}`},
			field:   "spec.aws.roleARN", says: "this is no ARN of a role; it looks like arn:aws:iam::123456789012:role/name"},
		{kind: "Account", accepts: []string{gcp}, rejects: []string{"provider: GCP, region: europe-west1, credentials: {name: key}, gcp: {projectID: Shop}"},
			field: "spec.gcp.projectID", says: "this is no project ID; it has 6 to 30 lower-case letters, digits and '-', such as my-project-123456"},
		{kind: "Account", accepts: []string{azure}, rejects: []string{"provider: Azure, region: x, credentials: {name: key}, azure: {subscriptionID: x, tenantID: 00000000-0000-0000-0000-000000000002}"},
			field: "spec.azure.subscriptionID", says: uuid},
		{kind: "Account", accepts: []string{azure}, rejects: []string{"provider: Azure, region: x, credentials: {name: key}, azure: {tenantID: x, subscriptionID: 00000000-0000-0000-0000-000000000002}"},
			field: "spec.azure.tenantID", says: uuid},
		{kind: "Account", from: hosts, accepts: []string{"provider: SSH, ssh: {trustOnFirstUse: true, hosts: [{address: 192.0.2.2}]}"}, rejects: []string{"provider: Local", ""},
			field: "spec.provider", says: "it cannot change; make a new account"},
	})
}

func sshExamples() []example {
	const address = "this is neither a host name nor an IP address; the port goes into port"
	const bastion = "provider: SSH, ssh: {hosts: [{address: 192.0.2.1, hostKey: ssh-ed25519 A}], bastion: "
	return []example{
		{kind: "Account", accepts: []string{hosts, "provider: SSH, ssh: {hosts: [{address: 192.0.2.1, hostKey: ssh-ed25519 A}]}"},
			rejects: []string{"provider: SSH, ssh: {hosts: [{address: 192.0.2.1}]}", "provider: SSH, ssh: {hosts: [{address: 192.0.2.1, hostKey: x}, {address: 192.0.2.2}]}"},
			field:   "spec.ssh.hosts", says: "a host without hostKey cannot be told from an impostor; give each its hostKey (ssh-keyscan prints it) or set trustOnFirstUse"},
		{kind: "Account", accepts: []string{bastion + "{address: jump, hostKey: ssh-ed25519 B}}"}, rejects: []string{bastion + "{address: jump}}"},
			field: "spec.ssh.bastion", says: "a bastion without hostKey cannot be told from an impostor; give its hostKey (ssh-keyscan prints it) or set trustOnFirstUse"},
		{kind: "Account", accepts: []string{"provider: SSH, ssh: {trustOnFirstUse: true, hosts: [{address: rack-1.example.com}, {address: '2001:db8::1'}]}"},
			rejects: []string{"provider: SSH, ssh: {trustOnFirstUse: true, hosts: [{address: '192.0.2.1:22'}]}", "provider: SSH, ssh: {trustOnFirstUse: true, hosts: [{address: root@rack}]}"},
			field:   "spec.ssh.hosts[0].address", says: address},
		{kind: "Account", accepts: []string{bastion + "{address: jump, hostKey: x}}"}, rejects: []string{bastion + "{address: 'jump:22', hostKey: x}}"},
			field: "spec.ssh.bastion.address", says: address},
	}
}

func providerExamples() []example {
	const arn = `aws: {roleARN: "arn:aws:iam::123456789012:role/cloud"}`
	only := func(provider string) string {
		return "it is only for provider " + provider + "; remove it, or set spec.provider"
	}
	return []example{
		{kind: "Account", accepts: []string{hosts}, rejects: []string{"provider: SSH"}, field: "spec.ssh", says: "an account of provider SSH needs an inventory of hosts"},
		{kind: "Account", accepts: []string{gcp}, rejects: []string{"provider: GCP, region: x, credentials: {name: key}"}, field: "spec.gcp", says: "an account of provider GCP needs its projectID"},
		{kind: "Account", accepts: []string{azure}, rejects: []string{"provider: Azure, region: x, credentials: {name: key}"}, field: "spec.azure", says: "an account of provider Azure needs its subscriptionID and tenantID"},
		{kind: "Account", accepts: []string{aws, "provider: Local", "provider: KubeVirt"}, rejects: []string{"provider: AWS, " + arn},
			field: "spec.region", says: "an account of a cloud needs a region, such as eu-west-1"},
		{kind: "Account", accepts: []string{aws, "provider: AWS, region: eu-west-1, credentials: {name: key}"},
			rejects: []string{"provider: AWS, region: eu-west-1", `provider: AWS, region: eu-west-1, aws: {roleARN: ""}`, "provider: AWS, region: eu-west-1, aws: {externalID: x}"},
			field:   "spec.credentials", says: "an account of provider AWS needs a Secret with keys, or a role to assume in spec.aws.roleARN"},
		{kind: "Account", accepts: []string{gcp, "provider: GCP, region: x, gcp: {projectID: shop-123456, workloadIdentityProvider: p}"}, rejects: []string{"provider: GCP, region: x, gcp: {projectID: shop-123456}"},
			field: "spec.credentials", says: "an account of provider GCP needs a Secret with a key, or a provider to federate with in spec.gcp.workloadIdentityProvider"},
		{kind: "Account", accepts: []string{azure}, rejects: []string{"provider: Azure, region: x, azure: " + ids},
			field: "spec.credentials", says: "an account of provider Azure needs a Secret with the client's secret or certificate"},
		{kind: "Account", accepts: []string{hosts}, rejects: []string{"ssh: {trustOnFirstUse: true, hosts: [{address: a}]}"}, field: "spec.ssh", says: only("SSH")},
		{kind: "Account", accepts: []string{aws}, rejects: []string{arn}, field: "spec.aws", says: only("AWS")},
		{kind: "Account", accepts: []string{gcp}, rejects: []string{"gcp: {projectID: shop-123456}"}, field: "spec.gcp", says: only("GCP")},
		{kind: "Account", accepts: []string{azure}, rejects: []string{"azure: " + ids}, field: "spec.azure", says: only("Azure")},
	}
}

func networkExamples() []example {
	const noCIDR = "this is no CIDR, or has host bits set; it looks like "
	return slices.Concat(securityExamples(), []example{
		{kind: "Network", accepts: []string{"cidr: 172.16.0.0/12", "cidr: 'fd00::/48'"}, rejects: []string{"cidr: 10.0.0.1/16", "cidr: 10.0.0.0", "cidr: 10.0.0.0/33", "cidr: 010.0.0.0/16"},
			field: "spec.cidr", says: noCIDR + "10.0.0.0/16"},
		{kind: "Network", accepts: []string{"cidr: 10.0.0.0/28", "cidr: 'fd00::/64'"}, rejects: []string{"cidr: 10.0.0.0/29", "cidr: 'fd00::/65'"},
			field: "spec.cidr", says: "the range is too small for a network; use /28 or larger (IPv6: /64 or larger)"},
		{kind: "Network", from: "cidr: 10.0.0.0/16", accepts: []string{"cidr: 10.0.0.0/16, infraVersion: v2", ""}, rejects: []string{"cidr: 10.0.0.0/8"},
			field: "spec.cidr", says: "it cannot change; make a new network"},
		{kind: "Network", from: "account: local", accepts: []string{"infraVersion: v2"}, rejects: []string{"account: other"},
			field: "spec.account", says: "it cannot change; make a new network"},
		{kind: "Network", accepts: []string{"subnets: [{name: a, cidr: 10.0.1.0/24}]"}, rejects: []string{"subnets: [{name: a, cidr: 10.0.1.1/24}]"},
			field: "spec.subnets[0].cidr", says: noCIDR + "10.0.1.0/24"},
		{kind: "Network", accepts: []string{"subnets: [{name: public-1, cidr: 10.0.1.0/24}]"}, rejects: []string{"subnets: [{name: Public, cidr: 10.0.1.0/24}]", "subnets: [{name: a-, cidr: 10.0.1.0/24}]"},
			field: "spec.subnets[0].name", says: "use 1 to 40 lower-case letters, digits and '-', beginning with a letter and not ending with '-'"},
		{kind: "Network", accepts: []string{"cidr: 10.1.0.0/16, subnets: [{name: a, cidr: 10.1.0.0/16}]"}, rejects: []string{"cidr: 10.1.0.0/16, subnets: [{name: a, cidr: 10.2.0.0/24}]", "subnets: [{name: a, cidr: 10.0.0.0/8}]"},
			field: "spec.subnets", says: "a subnet does not lie within spec.cidr; choose its cidr from the network's"},
		{kind: "Network", accepts: []string{"subnets: [{name: a, cidr: 10.0.0.0/24}, {name: b, cidr: 10.0.1.0/24}]"}, rejects: []string{"subnets: [{name: a, cidr: 10.0.0.0/23}, {name: b, cidr: 10.0.1.0/24}]"},
			field: "spec.subnets", says: "two subnets overlap; choose ranges apart"},
	})
}

func securityExamples() []example {
	examples := []example{
		{kind: "Network", accepts: []string{"securityGroups: [{name: sg-dev}]"}, rejects: []string{"securityGroups: [{name: SG}]"},
			field: "spec.securityGroups[0].name", says: "use 1 to 63 lower-case letters, digits and '-', beginning with a letter and not ending with '-'"},
	}
	examples = append(examples, ruleExamples("spec.securityGroups[0].rules[0]", func(rule string) string { return "securityGroups: [{name: sg, rules: [{" + rule + "}]}]" })...)
	return append(examples, ruleExamples("spec.clusterRules[0]", func(rule string) string { return "clusterRules: [{" + rule + "}]" })...)
}

// ruleExamples are those of security rules, wherever they are.
func ruleExamples(field string, rule func(rule string) string) []example {
	ports := field + ".ports"
	return []example{
		{kind: "Network", accepts: []string{rule("protocol: TCP, ports: '6443'"), rule("protocol: ICMP")}, rejects: []string{rule("protocol: TCP"), rule("protocol: UDP")},
			field: ports, says: "a rule for TCP or UDP needs a port, such as 6443, or a range, such as 30000-32767"},
		{kind: "Network", accepts: []string{rule("protocol: ARP"), rule("protocol: Any")}, rejects: []string{rule("protocol: ICMP, ports: '1'"), rule("protocol: Any, ports: 1-2")},
			field: ports, says: "only rules for TCP and UDP have ports; remove it"},
		{kind: "Network", accepts: []string{rule("protocol: UDP, ports: 1-65535"), rule("protocol: TCP, ports: 80-80")},
			rejects: []string{rule("protocol: TCP, ports: '0'"), rule("protocol: TCP, ports: '65536'"), rule("protocol: TCP, ports: 90-80"), rule("protocol: TCP, ports: http")},
			field:   ports, says: "give a port from 1 to 65535, or a range with the lower one first"},
		{kind: "Network", accepts: []string{rule("protocol: Any, source: 10.0.0.0/8"), rule("protocol: Any, source: ''")}, rejects: []string{rule("protocol: Any, source: 10.0.0.1")},
			field: field + ".source", says: "this is no CIDR; it looks like 10.0.0.0/8"},
	}
}
