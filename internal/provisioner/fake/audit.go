package fake

import (
	"context"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Annotations of a cluster that make audits find something.
const (
	// AnnotationFinding is what is found, for as long as it is there, and AnnotationRisk what a repair could lose.
	AnnotationFinding = "fake.plasmacloud.io/finding"
	AnnotationRisk    = "fake.plasmacloud.io/risk"
	// AnnotationIrreparable, set to true, makes it something that no repair mends.
	AnnotationIrreparable = "fake.plasmacloud.io/irreparable"
)

// Audit tells what the cluster's annotations say.
func (p *Provisioner) Audit(_ context.Context, c *v1alpha1.Cluster, _ bool) ([]v1alpha1.Finding, error) {
	found, ok := c.Annotations[AnnotationFinding]
	if !ok {
		return nil, nil
	}
	return []v1alpha1.Finding{{
		Check: "configuration", Message: found, Remedy: "take annotation " + AnnotationFinding + " away",
		Risk: c.Annotations[AnnotationRisk], Repairable: c.Annotations[AnnotationIrreparable] != "true",
	}}, nil
}
