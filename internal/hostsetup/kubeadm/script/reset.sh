# Undoes what kubeadm has begun. Arguments: the container runtime's socket.
set -u
kubeadm reset --force --cri-socket "unix://$1" >&2 || {
	# Without a cluster that answers it cannot leave it in order; what it made here goes all the same.
	kubeadm reset phase cleanup-node --cri-socket "unix://$1" >&2
}
systemctl stop kubelet.service
rm -rf /etc/kubernetes/manifests /etc/kubernetes/pki /var/lib/etcd
rm -f /etc/kubernetes/*.conf /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env
rm -rf /var/lib/kubelet/pki
mkdir -p /etc/kubernetes/manifests
exit 0
