#!/usr/bin/env bash
# up.sh RELEASE DATA-DIR [k8shost server flags] starts a single-node cluster as a service, unless it runs already,
# lets it run a first pod, and says how to use it.
set -euo pipefail
release=$1 data=$2
shift 2
toolbox=plasmacloud.io/toolbox:latest
option= setting= # what a command needs to find a data directory that is not the usual one
if [ "$data" != /var/lib/k8shost ]; then
	option=" --data-dir $data" setting=" DATA_DIR=$data"
fi
k8shost() { "$release/bin/k8shost" "$@"; }
kubectl() { k8shost kubectl --data-dir "$data" "$@"; }

[ "$(id -u)" = 0 ] || {
	echo "up: a node needs root: sudo make up" >&2
	exit 1
}
k8shost up --data-dir "$data" "$@" >/dev/null
kubectl apply --filename=- >/dev/null <<YAML
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: toolbox, image: "$toolbox", imagePullPolicy: IfNotPresent, command: [sleep, infinity]}
YAML
kubectl wait --for=condition=Ready pod/first --timeout=120s >/dev/null || {
	kubectl describe pod/first >&2
	echo "up: the first pod does not run; logs are in $data/logs" >&2
	exit 1
}
kubectl get nodes
kubectl get pods --all-namespaces
cat <<END

The cluster is up: its node is Ready, and a first pod runs. To use it:
  export PATH=$release/bin:\$PATH
  k8shost kubectl$option get pods -A
  k8shost kubectl$option exec -it first -- sh       a shell in the pod
  export KUBECONFIG=$data/server/cred/admin.kubeconfig      for a kubectl of your own
Logs are in $data/logs. To remove the cluster and all its data: make down$setting
END
