package admission

import (
	"testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func bkt(name, cluster string) *v1alpha1.Bucket {
	return named(&v1alpha1.Bucket{Spec: v1alpha1.BucketSpec{Cluster: cluster}}, home, name)
}

func TestBucketsAreOfClustersInClouds(t *testing.T) {
	inCloud := k8s("shop", func(s *v1alpha1.ClusterSpec) { s.Type, s.Network = v1alpha1.ClusterEKS, "cloud" })
	v := validator(t, append(world(), inCloud, k8s("dev"))...)
	check(t, v.Handle(t.Context(), creating(t, bkt("assets", "shop"))))
	check(t, v.Handle(t.Context(), creating(t, bkt("assets", "none"))), "spec.cluster", "there is none of this name in project shop; create it with `cloud k8s create`")
	check(t, v.Handle(t.Context(), creating(t, bkt("assets", "dev"))), "spec.cluster", "it is of type Hosted, and buckets are made in clouds; name a cluster of type EKS, GKE or AKS")
	check(t, v.Handle(t.Context(), creating(t, named(bkt("assets", "shop"), "default", "assets"))), "this is no project's namespace")
}
