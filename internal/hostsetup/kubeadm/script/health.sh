# Tells how a node is. Arguments: the role, the pod network's unit, the file with checksums of what must not change, and
# the one that says that the host is a part of a cluster, and its address. Prints sections that begin with a line "== name".
set -u
role=$1 network=$2 laid=$3 finished=$4 address=$5
echo '== membership'
cat -- "$finished" 2>/dev/null
for unit in containerd.service kubelet.service "$network"; do
	[ -e "/etc/systemd/system/$unit" ] || [ "$unit" != "$network" ] || continue
	echo "== unit $unit"
	systemctl is-active "$unit"
done
echo '== changed'
[ ! -e "$laid" ] || sha256sum --check --quiet -- "$laid" 2>/dev/null | sed -n 's/: FAILED.*$//p'
certificate() { sed -n '/^-----BEGIN CERTIFICATE-----$/,/^-----END CERTIFICATE-----$/p' -- "$1"; }
if [ -e /var/lib/kubelet/pki/kubelet-client-current.pem ]; then
	echo '== certificate kubelet-client-current.pem'
	certificate /var/lib/kubelet/pki/kubelet-client-current.pem
fi
[ "$role" = ControlPlane ] || exit 0
for file in /etc/kubernetes/pki/*.crt /etc/kubernetes/pki/etcd/*.crt; do
	[ -e "$file" ] || continue
	echo "== certificate ${file#/etc/kubernetes/}"
	certificate "$file"
done
for file in admin.conf super-admin.conf controller-manager.conf scheduler.conf; do
	[ -e "/etc/kubernetes/$file" ] || continue
	echo "== certificate $file"
	sed -n 's/^ *client-certificate-data: *//p' "/etc/kubernetes/$file" | base64 -d
done
echo '== api'
kubectl --kubeconfig /etc/kubernetes/admin.conf --server "https://$address" --request-timeout 5s get --raw /readyz 2>&1 | tail -n 3
exit 0
