package cloud

import (
	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/gcp"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

// inGCP translates for Google Cloud.
type inGCP struct{}

func (inGCP) cloud() string { return gcp.Cloud }

func (inGCP) stack(own stack) gcp.Stack {
	return gcp.Stack{Name: own.name, InfraVersion: own.infraVersion, Account: own.account}
}

func (t inGCP) network(own stack, n *v1alpha1.Network) (any, error) {
	var options gcp.NetworkOptions
	if chosen := n.Spec.GCP; chosen != nil {
		options = gcp.NetworkOptions{PodCIDR: chosen.PodCIDR, ServiceCIDR: chosen.ServiceCIDR, NoNAT: off(chosen.NAT), NoFlowLogs: off(chosen.FlowLogs)}
	}
	return gcp.Network(t.stack(own), n, options)
}

func (t inGCP) cluster(own stack, c *v1alpha1.Cluster, _ *v1alpha1.Network, made outputs) (any, error) {
	var network gcp.NetworkOutputs
	if err := made.into(&network); err != nil {
		return nil, err
	}
	var options gcp.ClusterOptions
	if chosen := c.Spec.GKE; chosen != nil {
		options = gcp.ClusterOptions{
			Autopilot: chosen.Autopilot, ReleaseChannel: chosen.ReleaseChannel, Spot: chosen.Spot, Autoscale: chosen.Autoscale, EncryptionKey: chosen.EncryptionKey,
		}
	}
	return gcp.Cluster(t.stack(own), c, &network, options)
}

func (t inGCP) bucket(own stack, b *v1alpha1.Bucket, _ outputs) (any, error) {
	bucket := gcp.Bucket{
		Name: translate.Name(own.name, b.Name), NoVersioning: off(b.Spec.Versioning), KMSKey: b.Spec.EncryptionKey, DestroyObjects: b.Spec.DeleteObjects,
	}
	if own.account.Spec.GCP != nil {
		bucket.ProjectNumber = own.account.Spec.GCP.ProjectNumber
	}
	if access := b.Spec.Access; access != nil {
		bucket.Namespace, bucket.ServiceAccount = access.Namespace, access.ServiceAccount
	}
	return gcp.NewBucket(t.stack(own), bucket)
}

func (inGCP) networkFacts() networkFacts { return &gcp.NetworkOutputs{} }
func (inGCP) clusterFacts() clusterFacts { return &gcp.ClusterOutputs{} }
