# Tells how far the host is. Arguments: the file that says that it is a part of a cluster. Prints done=<what the file
# says> and begun=yes where kubeadm has made anything.
set -u
[ ! -s "$1" ] || echo "done=$(cat -- "$1")"
for path in kubelet.conf bootstrap-kubelet.conf pki/ca.crt manifests/etcd.yaml manifests/kube-apiserver.yaml; do
	[ ! -e "/etc/kubernetes/$path" ] || { echo begun=yes && break; }
done
exit 0
