# Makes the container runtime run, and the kubelet's service known; it follows after link.sh. Arguments: "start" or
# "restart". Prints the images that there are.
mkdir -p /etc/kubernetes/manifests
systemctl daemon-reload
systemctl enable --quiet containerd.service kubelet.service
systemctl reset-failed containerd.service 2>/dev/null || :
if ! systemctl "$1" containerd.service; then
	journalctl --no-pager --lines=5 --output=cat --unit=containerd.service >&2 || :
	exit 1
fi
ctr --namespace k8s.io images ls
