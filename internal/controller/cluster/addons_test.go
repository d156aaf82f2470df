package cluster_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func TestAClusterTellsOfMissingAddons(t *testing.T) {
	_, namespace := start(t)
	c := newCluster(namespace, "cloudy")
	create(t, c)
	eventually(t, c, "a task", func() bool { return c.Status.Task != "" })
	if meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionAddons) != nil {
		t.Error("it speaks of add-ons before there are any")
	}
	finish(t, c, v1alpha1.TaskSucceeded, "", map[string]string{"endpoint": "https://10.0.0.1:6443", "addons": "karpenter: no chart"})
	eventually(t, c, "it to tell what is missing", func() bool {
		told := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionAddons)
		return told != nil && told.Status == "False" && told.Reason == v1alpha1.ReasonIncomplete && told.Message == "karpenter: no chart"
	})
	before := c.Status.Task
	change(t, c, func() { c.Annotations = map[string]string{v1alpha1.AnnotationRepair: "now"} })
	eventually(t, c, "another task", func() bool { return c.Status.Task != before })
	finish(t, c, v1alpha1.TaskSucceeded, "", map[string]string{"addons": ""})
	eventually(t, c, "it to tell that nothing is missing", func() bool {
		return meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionAddons)
	})
}
