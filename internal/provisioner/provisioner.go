// Package provisioner knows, for each type of cluster, the steps of every operation. It says what is done in which order;
// package task runs it, and keeps the record, the retries and the progress. A folder below is one type of cluster.
package provisioner

import (
	"fmt"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
)

// Outputs of steps that become part of a cluster's status when they are set.
const (
	OutputEndpoint   = "endpoint"         // the URL of the cluster's API
	OutputVersion    = "version"          // the version of Kubernetes that runs, in full
	OutputNodes      = "nodes"            // how many nodes there are
	OutputReadyNodes = "readyNodes"       // how many of them are ready
	OutputKubeconfig = "kubeconfigSecret" // the Secret with the administrator's kubeconfigs
	// OutputInfraVersion is the version of the configuration that infrastructure in a cloud is made with, OutputPlan what is
	// done to it, in words.
	OutputInfraVersion = "infraVersion"
	OutputPlan         = "plan"
	// OutputRemains is what is left in the cloud of a resource that was only deleted from the platform's record: a line for
	// each thing, with its address and the cloud's own name for it.
	OutputRemains = "remains"
	// OutputNetwork is what a network in a cloud has there: a NetworkStatus in JSON. OutputID is what a cloud knows a bucket by.
	OutputNetwork = "network"
	OutputID      = "id"
	// OutputAddons says which add-ons of a cluster in a cloud are missing, and why; it is empty where none is.
	OutputAddons = "addons"
	// OutputInventory is what the cluster has made outside itself, each as Kind/name, separated by commas. It is set when
	// the first of it is about to be made, and shrinks as a deletion goes on; it is empty when nothing is left.
	OutputInventory = "inventory"
)

// Provisioner makes, changes and removes clusters of one type.
type Provisioner interface {
	// Steps returns the steps of an operation. They are always the same for the same operation: see task.Step and
	// task.Planner, whose rules hold. An operation that the type does not know is an Unsupported error.
	Steps(operation v1alpha1.Operation, c *v1alpha1.Cluster) ([]task.Step, error)
}

// Set is the provisioners of a version of the platform, by the type of cluster that they make. It is the task.Planner of
// its workers.
type Set map[v1alpha1.ClusterType]Provisioner

var _ task.Planner = Set(nil)

// Kinds are the planners of resources that are no clusters, by kind, besides those that make clusters.
type Kinds struct {
	Clusters Set
	Others   map[string]task.Planner
}

var _ task.Planner = Kinds{}

// Steps implements task.Planner.
func (k Kinds) Steps(t *v1alpha1.Task, object task.Object) ([]task.Step, error) {
	if planner := k.Others[t.Spec.Resource.Kind]; planner != nil {
		return planner.Steps(t, object)
	}
	return k.Clusters.Steps(t, object)
}

// Steps implements task.Planner.
func (s Set) Steps(t *v1alpha1.Task, object task.Object) ([]task.Step, error) {
	c, ok := object.(*v1alpha1.Cluster)
	if !ok {
		return nil, task.Permanent(fmt.Errorf("there are no operations on resources of kind %s", t.Spec.Resource.Kind))
	}
	operation := t.Spec.Operation
	if p := s[c.Spec.Type]; p != nil {
		steps, err := p.Steps(operation, c)
		if auditor, ok := p.(Auditor); ok && operation == v1alpha1.OperationRepair && err == nil {
			steps = append([]task.Step{assess(auditor)}, steps...)
		}
		return steps, err
	}
	if operation == v1alpha1.OperationDelete && nothingToRemove(c) {
		return nil, nil
	}
	return nil, s.Check(c.Spec.Type, operation)
}

// nothingToRemove tells whether a cluster that nobody here can remove may go all the same: nothing was ever made for it,
// or its owner has said that what was made is to be left.
func nothingToRemove(c *v1alpha1.Cluster) bool {
	_, forced := c.Annotations[v1alpha1.AnnotationForce]
	return forced || c.Status.ObservedGeneration == 0 && len(c.Status.Inventory) == 0
}

// Check tells whether clusters of a type can be made, scaled and so on by this version.
func (s Set) Check(clusterType v1alpha1.ClusterType, operation v1alpha1.Operation) error {
	if s[clusterType] != nil {
		return nil
	}
	var have []string
	for has := range s {
		have = append(have, string(has))
	}
	slices.Sort(have)
	if len(have) == 0 {
		have = []string{"none"}
	}
	return Unsupported(clusterType, operation, "it has types "+strings.Join(have, ", "))
}

// Unsupported says that this version of the platform has no way to do an operation on clusters of a type. It is
// permanent: the task fails.
func Unsupported(clusterType v1alpha1.ClusterType, operation v1alpha1.Operation, why string) error {
	return task.Permanent(&UnsupportedError{Type: clusterType, Operation: operation, Why: why})
}

// UnsupportedError is a capability that is missing.
type UnsupportedError struct {
	Type      v1alpha1.ClusterType
	Operation v1alpha1.Operation
	Why       string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("clusters of type %s cannot be %s by this version: %s", e.Type, participle(e.Operation), e.Why)
}

func participle(operation v1alpha1.Operation) string {
	switch operation {
	case v1alpha1.OperationCreate:
		return "made"
	case v1alpha1.OperationUpdate:
		return "changed"
	default: // Scale, Upgrade, Repair, Delete
		word := strings.ToLower(string(operation))
		return strings.TrimSuffix(word, "e") + "ed"
	}
}

// Replicas is the number of nodes that a task is to give a group of the cluster: the task's own, as a group may have been
// scaled by itself, or what the cluster's spec says where the task says nothing.
func Replicas(t *v1alpha1.Task, c *v1alpha1.Cluster, group string) int {
	template := c.Spec.NodeGroups[group]
	if replicas, ok := t.Spec.Replicas[group]; ok {
		return int(replicas)
	}
	if template.Replicas != nil {
		return int(*template.Replicas)
	}
	return int(template.MinReplicas)
}

// Nodes is the number of worker nodes that a task is to give the cluster.
func Nodes(t *v1alpha1.Task, c *v1alpha1.Cluster) int {
	nodes := 0
	for group := range c.Spec.NodeGroups {
		nodes += Replicas(t, c, group)
	}
	return nodes
}
