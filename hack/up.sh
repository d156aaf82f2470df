#!/usr/bin/env bash
# up.sh RELEASE DATA-DIR [k8shost server flags] starts a single-node cluster as a service, unless it runs already,
# lets it run a first pod, and says how to use it.
set -euo pipefail
release=$1 data=$2
shift 2
k8shost=$release/bin/k8shost
toolbox=plasmacloud.io/toolbox:latest
kubectl() { "$k8shost" kubectl --data-dir "$data" "$@"; }

[ "$(id -u)" = 0 ] || {
	echo "up: a node needs root: sudo make up" >&2
	exit 1
}
"$k8shost" up --data-dir "$data" "$@" >/dev/null

kubectl apply --filename=- >/dev/null <<YAML
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: toolbox, image: "$toolbox", imagePullPolicy: IfNotPresent, command: [sleep, infinity]}
YAML
kubectl wait --for=jsonpath='{.status.phase}'=Running pod/first --timeout=120s >/dev/null || {
	kubectl describe pod/first >&2
	echo "up: the first pod does not run; logs are in $data/logs" >&2
	exit 1
}
kubectl get nodes
kubectl get pods --all-namespaces
cat <<END

The cluster is up: its node is Ready and its first pod runs. To use it:
  export PATH=$release/bin:\$PATH
  k8shost kubectl --data-dir $data exec -it first -- sh   # a shell in the pod
  export KUBECONFIG=$data/server/cred/admin.kubeconfig    # or with any kubectl of your own
Images without a registry: $toolbox is there; lay further OCI archives (*.tar) into $data/agent/images and restart.
Logs are in $data/logs. To stop it and leave nothing behind: make down
END
