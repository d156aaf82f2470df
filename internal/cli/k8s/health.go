package k8s

import (
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/output"
)

// details are the cluster's node groups, and what audits found.
func details(c *v1alpha1.Cluster, now time.Time) []output.Section {
	return append(groups(c, now), health(c)...)
}

// health is what is wrong with a cluster; nothing where all is well.
func health(c *v1alpha1.Cluster) []output.Section {
	if c.Status.Health == nil || len(c.Status.Health.Findings) == 0 {
		return nil
	}
	table := output.Table{Indent: "  ", Header: []string{"CHECK", "SUBJECT", "FOUND", "REPAIR"}}
	for _, finding := range c.Status.Health.Findings {
		repair := "by itself"
		switch {
		case finding.Risk != "" && finding.Repairable:
			repair = "with --force: " + finding.Risk
		case finding.Risk != "":
			repair = "refused: " + finding.Risk
		case !finding.Repairable:
			repair = output.Or(finding.Remedy)
		}
		table.Rows = append(table.Rows, []string{finding.Check, output.Or(finding.Subject), finding.Message, repair})
	}
	return []output.Section{{Heading: "Findings:", Table: table}}
}

// risks are what a repair could lose, as far as the last audit knew.
func risks(c *v1alpha1.Cluster) []string {
	var texts []string
	if c.Status.Health != nil {
		for _, finding := range c.Status.Health.Findings {
			if finding.Risk != "" {
				texts = append(texts, finding.String()+": "+finding.Risk)
			}
		}
	}
	return texts
}
