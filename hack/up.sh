#!/usr/bin/env bash
# up.sh RELEASE DATA-DIR [flags of cloud up] installs the platform on this host, or repairs it, and says how to use it.
set -euo pipefail
release=$1 data=$2
shift 2
option= setting= # what a command needs to find a data directory that is not the usual one
if [ "$data" != /var/lib/plasmacloud ]; then
	option=" --data-dir $data" setting=" DATA_DIR=$data"
fi

[ "$(id -u)" = 0 ] || {
	echo "up: a node needs root: sudo make up" >&2
	exit 1
}
"$release/bin/cloud" up --data-dir "$data" "$@"
cloud=$release/bin/cloud
"$cloud" whoami

# A first cluster, unless there is one already.
if [ -z "$("$cloud" k8s list -o name)" ]; then
	"$cloud" k8s create --name dev-cluster --vpc default --workers 2 --wait
fi
"$cloud" k8s list
first=$("$cloud" k8s list -o name | head -n 1)
kubeconfig=$(mktemp)
trap 'rm -f "$kubeconfig"' EXIT
"$cloud" k8s kubeconfig "$first" >"$kubeconfig"
"$release/bin/k8shost" kubectl --kubeconfig "$kubeconfig" get nodes
cat <<END

The platform is up, you are its administrator, and it runs a first cluster. To use it:
  export PATH=$release/bin:\$PATH
  cloud k8s kubeconfig $first > kubeconfig.yaml
  kubectl --kubeconfig kubeconfig.yaml get nodes      or k8shost kubectl, where there is no other
  cloud k8s create --name another --workers 1 --wait
  cloud status$option
  k8shost kubectl --data-dir $data get pods -A      what it all runs on
Logs are in $data/logs. To remove all of it, with the data: make down$setting
END
