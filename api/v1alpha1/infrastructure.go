package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
)

// LabelComponent tells what a pod of a cluster's infrastructure does.
const LabelComponent = "plasmacloud.io/component"

// The components of a cluster's infrastructure on the management cluster.
const (
	ComponentControlPlane = "control-plane"
	ComponentMachine      = "machine"
	ComponentDatastore    = "datastore"
)

// InfrastructureNamespace is where everything lives that a cluster has on the management cluster. The UID is part of it:
// a cluster that is made anew under the same name never meets what is left of the one before.
func InfrastructureNamespace(c *Cluster) string {
	sum := sha256.Sum256([]byte(c.Namespace + "/" + c.Name + "/" + string(c.UID)))
	return "cluster-" + c.Name + "-" + hex.EncodeToString(sum[:4])
}

// AdminKubeconfigSecret is the Secret, in the project's namespace, with the administrator's kubeconfigs of a cluster.
func AdminKubeconfigSecret(cluster string) string {
	return "kubernetes-" + cluster + "-admin-kubeconfig"
}

// The kubeconfigs in it: for use from outside (conf) and from pods of the management cluster (svc); the super
// administrator's do not depend on the cluster's RBAC.
const (
	KubeconfigAdmin             = "admin.conf"
	KubeconfigAdminService      = "admin.svc"
	KubeconfigSuperAdmin        = "super-admin.conf"
	KubeconfigSuperAdminService = "super-admin.svc"
)

// Groups of a cluster's users. Each is bound to the ClusterRole of its name in every cluster that the platform makes, and
// is what short-lived kubeconfigs are issued for.
const (
	GroupClusterAdmin = "plasmacloud:cluster-admin"
	GroupClusterEdit  = "plasmacloud:edit"
	GroupClusterView  = "plasmacloud:view"
)
