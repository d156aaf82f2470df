package cluster

import (
	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/status"
	"plasmacloud.io/plasmacloud/internal/provisioner"
)

// mirrorAddons tells which add-ons of a cluster in a cloud a task did not install.
func mirrorAddons(c *v1alpha1.Cluster, outputs map[string]string) {
	missing, ok := outputs[provisioner.OutputAddons]
	switch {
	case !ok:
	case missing == "":
		status.Set(&c.Status.Conditions, c, v1alpha1.ConditionAddons, true, v1alpha1.ReasonReady, "")
	default:
		status.Set(&c.Status.Conditions, c, v1alpha1.ConditionAddons, false, v1alpha1.ReasonIncomplete, missing)
	}
}
