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
"$release/bin/cloud" whoami
cat <<END

The platform is up, and you are its administrator. To use it:
  export PATH=$release/bin:\$PATH
  cloud status$option
  cloud k8s create --name first --vpc default --type fake --workers 2 --wait
  cloud k8s list
  cloud kubeconfig --management > management.yaml      for kubectl with your login
  k8shost kubectl --data-dir $data get pods -A      as the administrator of the cluster it runs on
Logs are in $data/logs. To remove all of it, with the data: make down$setting
END
