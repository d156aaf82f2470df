package cloud

import (
	"encoding/json"
	"strconv"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/task"
	configuration "plasmacloud.io/plasmacloud/terraform"
)

// publish writes down what a stack has put out, for the resource's status.
func publish(scope *task.Scope, request deployer.Request, made outputs) error {
	translate, err := translatorFor(request.Cloud)
	if err != nil {
		return err
	}
	switch request.Kind {
	case configuration.Network:
		return publishNetwork(scope, translate.networkFacts(), made)
	case configuration.Cluster:
		return publishCluster(scope, translate.clusterFacts(), made)
	case configuration.Bucket:
		return publishBucket(scope, made)
	}
	return nil
}

func publishNetwork(scope *task.Scope, facts networkFacts, made outputs) error {
	if err := made.into(facts); err != nil {
		return err
	}
	var status v1alpha1.NetworkStatus
	facts.Apply(&status)
	text, err := json.Marshal(status)
	if err != nil {
		return err
	}
	scope.SetOutput(provisioner.OutputNetwork, string(text))
	return nil
}

// publishCluster tells where a cluster is. Nodes are counted as the cloud counts them: it has said that they are there.
func publishCluster(scope *task.Scope, facts clusterFacts, made outputs) error {
	if err := made.into(facts); err != nil {
		return err
	}
	var status v1alpha1.ClusterStatus
	facts.Apply(&status)
	scope.SetOutput(provisioner.OutputEndpoint, status.Endpoint)
	scope.SetOutput(provisioner.OutputVersion, status.Version)
	nodes := strconv.Itoa(int(status.Nodes.Desired))
	scope.SetOutput(provisioner.OutputNodes, nodes)
	scope.SetOutput(provisioner.OutputReadyNodes, nodes)
	return nil
}

func publishBucket(scope *task.Scope, made outputs) error {
	var bucket struct {
		ID       string `json:"id"`
		Endpoint string `json:"endpoint"`
	}
	if err := made.into(&bucket); err != nil {
		return err
	}
	scope.SetOutput(provisioner.OutputID, bucket.ID)
	scope.SetOutput(provisioner.OutputEndpoint, bucket.Endpoint)
	return nil
}
