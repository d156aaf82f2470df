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
	Of map[v1alpha1.ClusterType]hostsetup.Distribution
	// Describe tells what a cluster's hosts have in common. The join material is empty for as long as there is none.
	Describe func(ctx context.Context, c *v1alpha1.Cluster, version string, join bootstrap.Join) (hostsetup.Cluster, error)
}

var _ Joiner = Distributions{}

// Join implements Joiner.
func (d Distributions) Join(ctx context.Context, job Job, progress func(string)) error {
	distribution := d.Of[job.Cluster.Spec.Type]
	if distribution == nil {
		return fmt.Errorf("this installation makes no nodes of clusters of type %s: it was started without a release to take programs from", job.Cluster.Spec.Type)
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
