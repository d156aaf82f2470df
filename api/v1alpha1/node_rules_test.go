package v1alpha1_test

// templateExamples are the rules of a group of nodes, wherever it is described.
func templateExamples(kind, before, after, at string) []example {
	group := func(fields string) string { return before + fields + after }
	const amount = "give a number from 0 to 1000, or a percentage such as 25%"
	return []example{
		{kind: kind, accepts: []string{group("minReplicas: 2, maxReplicas: 2")}, rejects: []string{group("minReplicas: 3, maxReplicas: 2")},
			field: at + ".minReplicas", says: "minReplicas is greater than maxReplicas; lower it, or raise maxReplicas"},
		{kind: kind, accepts: []string{group("minReplicas: 1, maxReplicas: 3, replicas: 2"), group("replicas: 10")}, rejects: []string{group("replicas: 11"), group("minReplicas: 2, replicas: 1")},
			field: at + ".replicas", says: "replicas lies outside minReplicas and maxReplicas; change the bounds too"},
		{kind: kind, accepts: []string{group("ephemeralStorage: 100Gi")}, rejects: []string{group("ephemeralStorage: 0"), group("ephemeralStorage: -1Gi")},
			field: at + ".ephemeralStorage", says: "it has to be more than nothing, such as 20Gi"},
		{kind: kind, accepts: []string{group("resources: {cpu: 500m}")}, rejects: []string{group("resources: {cpu: 0}"), group("resources: {cpu: '0'}")},
			field: at + ".resources.cpu", says: "it has to be more than nothing, such as 2 or 500m"},
		{kind: kind, accepts: []string{group("resources: {memory: 4Gi}")}, rejects: []string{group("resources: {memory: -4Gi}")},
			field: at + ".resources.memory", says: "it has to be more than nothing, such as 4Gi"},
		{kind: kind, accepts: []string{group("rollingUpdate: {maxSurge: 0, maxUnavailable: 1}"), group("rollingUpdate: {maxSurge: 25%}")},
			rejects: []string{group("rollingUpdate: {maxSurge: 0}"), group("rollingUpdate: {maxSurge: 0%, maxUnavailable: 0%}")},
			field:   at + ".rollingUpdate.maxUnavailable", says: "with maxSurge and maxUnavailable both 0 no node could ever be replaced; raise one of them"},
		{kind: kind, accepts: []string{group("rollingUpdate: {maxSurge: 100%}"), group("rollingUpdate: {maxSurge: 1000}")}, rejects: []string{group("rollingUpdate: {maxSurge: -1}"), group("rollingUpdate: {maxSurge: 101%}"), group("rollingUpdate: {maxSurge: one}")},
			field: at + ".rollingUpdate.maxSurge", says: amount},
		{kind: kind, accepts: []string{group("rollingUpdate: {maxUnavailable: 1%}")}, rejects: []string{group("rollingUpdate: {maxUnavailable: 1001}"), group("rollingUpdate: {maxUnavailable: '1'}")},
			field: at + ".rollingUpdate.maxUnavailable", says: amount},
	}
}

func nodeGroupExamples() []example {
	return []example{
		{kind: "NodeGroup", accepts: []string{"cluster: dev, group: w, replicas: 10, template: {}", "cluster: dev, group: w, replicas: 2, template: {minReplicas: 2}"},
			rejects: []string{"cluster: dev, group: w, replicas: 11, template: {}", "cluster: dev, group: w, replicas: 1, template: {minReplicas: 2}"},
			field:   "spec.replicas", says: "replicas lies outside the group's minReplicas and maxReplicas; change the bounds in the cluster's spec.nodeGroups"},
		{kind: "NodeGroup", from: "cluster: dev, group: w, template: {}", accepts: []string{"cluster: dev, group: w, replicas: 3, template: {}"}, rejects: []string{"cluster: prod, group: w, template: {}"},
			field: "spec.cluster", says: "a group stays with its cluster; change spec.nodeGroups of the other cluster"},
		{kind: "NodeGroup", from: "cluster: dev, group: w, template: {}", accepts: []string{"cluster: dev, group: w, version: v1.36.3, template: {}"}, rejects: []string{"cluster: dev, group: x, template: {}"},
			field: "spec.group", says: "a group keeps its name; change spec.nodeGroups of the cluster"},
	}
}

// ownedExamples are the rules of what the platform makes itself.
func ownedExamples() []example {
	const task = "resource: {kind: Cluster, name: dev, uid: x}, operation: Create, generation: 1"
	return []example{
		{kind: "Machine", from: "cluster: dev, account: local", accepts: []string{"cluster: dev, account: local, version: v1.36.3"},
			rejects: []string{"cluster: prod, account: local", "cluster: dev, account: other", "cluster: dev, account: local, role: ControlPlane"},
			field:   "spec", says: "a machine's cluster, account and role cannot change; delete it, and the platform makes another"},
		{kind: "Machine", accepts: []string{"cluster: dev, account: local, resources: {cpu: 2}"}, rejects: []string{"cluster: dev, account: local, resources: {cpu: 0}"},
			field: "spec.resources.cpu", says: "it has to be more than nothing, such as 2 or 500m"},
		{kind: "Machine", accepts: []string{"cluster: dev, account: local, resources: {memory: 2Gi}"}, rejects: []string{"cluster: dev, account: local, resources: {memory: 0}"},
			field: "spec.resources.memory", says: "it has to be more than nothing, such as 4Gi"},
		{kind: "Task", from: task, accepts: []string{task}, rejects: []string{task + ", priority: 5", "resource: {kind: Cluster, name: dev, uid: x}, operation: Create, generation: 2"},
			field: "spec", says: "a task never changes; change the resource's own spec, and a new task brings it about"},
	}
}
