package machine

import (
	"context"
	"fmt"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
)

// Distributions is a Joiner: each type of cluster has its own way to make a host a node.
type Distributions struct {
	// Of returns that of a cluster. Its error says what the installation lacks.
	Of func(c *v1alpha1.Cluster) (hostsetup.Distribution, error)
	// Describe tells what a cluster's hosts have in common. The join material is empty for as long as there is none.
	Describe func(ctx context.Context, c *v1alpha1.Cluster, version string, join bootstrap.Join) (hostsetup.Cluster, error)
}

var _ Joiner = Distributions{}

// Join implements Joiner.
func (d Distributions) Join(ctx context.Context, job Job, progress func(string)) error {
	distribution, err := d.Of(job.Cluster)
	if err != nil {
		return fmt.Errorf("make a node of a cluster of type %s: %w", job.Cluster.Spec.Type, err)
	}
	version := (&scope{machine: job.Machine, cluster: job.Cluster}).version()
	cluster, err := d.Describe(ctx, job.Cluster, version, job.Join)
	if err != nil {
		return err
	}
	if !job.Prepared {
		if err := distribution.Prepare(ctx, job.Host, cluster, hostsetup.Worker, progress); err != nil {
			return err
		}
	}
	if job.Token == "" {
		return nil
	}
	progress("it joins the cluster")
	return distribution.JoinWorker(ctx, job.Host, cluster, job.Token)
}
