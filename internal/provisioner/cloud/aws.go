package cloud

import (
	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

// inAWS translates for AWS.
type inAWS struct{}

func (inAWS) cloud() string { return aws.Cloud }

func (inAWS) stack(own stack) aws.Stack {
	return aws.Stack{Name: own.name, InfraVersion: own.infraVersion, Account: own.account}
}

func (t inAWS) network(own stack, n *v1alpha1.Network) (any, error) {
	var options aws.NetworkOptions
	if chosen := n.Spec.AWS; chosen != nil {
		options = aws.NetworkOptions{
			Zones: chosen.Zones, NAT: aws.NAT(chosen.NAT), NoFlowLogs: off(chosen.FlowLogs), LogRetentionDays: int(chosen.LogRetentionDays),
			InterfaceEndpoints: chosen.InterfaceEndpoints,
		}
	}
	return aws.Network(t.stack(own), n, options)
}

func (t inAWS) cluster(own stack, c *v1alpha1.Cluster, n *v1alpha1.Network, made outputs) (any, error) {
	var network aws.NetworkOutputs
	if err := made.into(&network); err != nil {
		return nil, err
	}
	var options aws.ClusterOptions
	if chosen := c.Spec.EKS; chosen != nil {
		options = aws.ClusterOptions{
			Compute: aws.Compute(chosen.Compute), AMI: chosen.AMI, Spot: chosen.Spot, ExtendedSupport: chosen.ExtendedSupport,
			LogRetentionDays: int(chosen.LogRetentionDays), Admins: chosen.Admins,
		}
	}
	return aws.Cluster(t.stack(own), c, n, &network, options)
}

func (t inAWS) bucket(own stack, b *v1alpha1.Bucket, made outputs) (any, error) {
	var cluster aws.ClusterOutputs
	if err := made.into(&cluster); err != nil {
		return nil, err
	}
	bucket := aws.Bucket{
		Name: translate.Name(own.name, b.Name), Cluster: cluster.Name, NoVersioning: off(b.Spec.Versioning), KMSKeyARN: b.Spec.EncryptionKey,
		DestroyObjects: b.Spec.DeleteObjects,
	}
	if access := b.Spec.Access; access != nil {
		bucket.Namespace, bucket.ServiceAccount = access.Namespace, access.ServiceAccount
	}
	return aws.NewBucket(t.stack(own), bucket)
}

func (inAWS) networkFacts() networkFacts { return &aws.NetworkOutputs{} }
func (inAWS) clusterFacts() clusterFacts { return &aws.ClusterOutputs{} }

// off tells whether something was switched off that is on by default.
func off(flag *bool) bool { return flag != nil && !*flag }
