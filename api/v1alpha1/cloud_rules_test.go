package v1alpha1_test

// cloudExamples are those of clusters, networks and buckets in clouds.
func cloudExamples() []example {
	only := func(kind string) string {
		return "only clusters of type " + kind + " have it; remove it, or make a cluster of that type"
	}
	const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	const noCIDR = "this is no CIDR, or has host bits set; it looks like "
	return []example{
		{kind: "Cluster", accepts: []string{"type: EKS, version: v1.35, eks: {}"}, rejects: []string{"eks: {}", "type: GKE, version: v1.35, eks: {}"}, field: "spec.eks", says: only("EKS")},
		{kind: "Cluster", accepts: []string{"type: GKE, version: v1.35, gke: {}"}, rejects: []string{"gke: {}", "type: AKS, version: v1.35, gke: {}"}, field: "spec.gke", says: only("GKE")},
		{kind: "Cluster", accepts: []string{"type: AKS, version: v1.35, aks: {}"}, rejects: []string{"aks: {}", "type: EKS, version: v1.35, aks: {}"}, field: "spec.aks", says: only("AKS")},
		{kind: "Cluster", accepts: []string{"type: GKE, version: v1.35", "type: Hosted, version: v1.36.3", "type: Hosted"}, rejects: []string{"type: GKE, version: v1.35.2", "type: EKS", "type: AKS, version: ''"},
			field: "spec.version", says: "a cloud chooses the patch version itself; name the minor version, such as v1.35"},
		{kind: "Cluster", from: "type: GKE, version: v1.35, gke: {autopilot: true}", accepts: []string{"type: GKE, version: v1.36, gke: {autopilot: true}"},
			rejects: []string{"type: GKE, version: v1.35, gke: {autopilot: false}"}, field: "spec.gke.autopilot", says: "it cannot change; make a new cluster"},
		{kind: "Network", accepts: []string{"gcp: {podCIDR: 10.64.0.0/14}"}, rejects: []string{"gcp: {podCIDR: 10.64.0.1/14}", "gcp: {podCIDR: pods}"},
			field: "spec.gcp.podCIDR", says: noCIDR + "172.16.0.0/14"},
		{kind: "Network", accepts: []string{"gcp: {serviceCIDR: 10.68.0.0/20}"}, rejects: []string{"gcp: {serviceCIDR: 10.68.0.1/20}", "gcp: {serviceCIDR: services}"},
			field: "spec.gcp.serviceCIDR", says: noCIDR + "172.20.0.0/20"},
		{kind: "Account", accepts: []string{gcp, "provider: GCP, region: europe-west1, credentials: {name: key}, gcp: {projectID: shop-123456, projectNumber: '123456789012'}"},
			rejects: []string{"provider: GCP, region: europe-west1, credentials: {name: key}, gcp: {projectID: shop-123456, projectNumber: shop-123456}"},
			field:   "spec.gcp.projectNumber", says: "this is no number of a project; it looks like 123456789012"},
		{kind: "Account", accepts: []string{gcp + ", deployer: {remote: true}"}, rejects: []string{"deployer: {remote: true}", hosts + ", deployer: {}"},
			field: "spec.deployer", says: "it is only for accounts of clouds; remove it, or set spec.provider"},
		{kind: "Account", accepts: []string{gcp + ", deployer: {remote: true, tokens: [{sha256: " + hash + "}]}"}, rejects: []string{gcp + ", deployer: {tokens: [{sha256: " + hash + "}]}"},
			field: "spec.deployer.tokens", says: "they are for remote deployers; set spec.deployer.remote, or remove them"},
		{kind: "Account", accepts: []string{gcp + ", deployer: {remote: true, tokens: [{sha256: " + hash + "}]}"}, rejects: []string{gcp + ", deployer: {remote: true, tokens: [{sha256: pcd_SECRET}]}"},
			field: "spec.deployer.tokens[0].sha256", says: "this is no SHA-256; `cloud account deployer-token` makes a token and keeps its hash"},
		{kind: "Bucket", from: "cluster: shop", accepts: []string{"cluster: shop, deleteObjects: true"}, rejects: []string{"cluster: other"},
			field: "spec.cluster", says: "it cannot change; make a new bucket"},
	}
}
