package cloud

import (
	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/azure"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

// inAzure translates for Azure.
type inAzure struct{}

func (inAzure) cloud() string { return azure.Cloud }

func (inAzure) stack(own stack) azure.Stack {
	return azure.Stack{Name: own.name, InfraVersion: own.infraVersion, Account: own.account}
}

func (t inAzure) network(own stack, n *v1alpha1.Network) (any, error) {
	var options azure.NetworkOptions
	if chosen := n.Spec.Azure; chosen != nil {
		options = azure.NetworkOptions{NoNAT: off(chosen.NAT), NATZone: chosen.NATZone}
	}
	return azure.Network(t.stack(own), n, options)
}

func (t inAzure) cluster(own stack, c *v1alpha1.Cluster, n *v1alpha1.Network, made outputs) (any, error) {
	var network azure.NetworkOutputs
	if err := made.into(&network); err != nil {
		return nil, err
	}
	var options azure.ClusterOptions
	if chosen := c.Spec.AKS; chosen != nil {
		options = azure.ClusterOptions{
			AutoProvisioning: chosen.AutoProvisioning, FreeTier: chosen.FreeTier, SystemPool: chosen.SystemPool, Spot: chosen.Spot, Zones: chosen.Zones,
			Autoscale: chosen.Autoscale, AdminGroups: chosen.AdminGroups,
		}
	}
	return azure.Cluster(t.stack(own), c, n, &network, options)
}

func (t inAzure) bucket(own stack, b *v1alpha1.Bucket, made outputs) (any, error) {
	var cluster azure.ClusterOutputs
	if err := made.into(&cluster); err != nil {
		return nil, err
	}
	bucket := azure.Bucket{Name: translate.Name(own.name, b.Name), ResourceGroup: cluster.ResourceGroup, NoVersioning: off(b.Spec.Versioning)}
	if access := b.Spec.Access; access != nil {
		bucket.OIDCIssuer, bucket.Namespace, bucket.ServiceAccount = cluster.OIDCIssuer, access.Namespace, access.ServiceAccount
	}
	return azure.NewBucket(t.stack(own), bucket)
}

func (inAzure) networkFacts() networkFacts { return &azure.NetworkOutputs{} }
func (inAzure) clusterFacts() clusterFacts { return &azure.ClusterOutputs{} }
