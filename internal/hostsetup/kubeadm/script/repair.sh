# Brings back what kubeadm has written, and has it renew certificates. Arguments: the role, kubeadm's configuration, which
# is removed, an archive of the files that kubeadm has written, and what to do: files, certificates, kubelet-certificate.
set -eu
role=$1 config=$2 archive=$3
shift 3
renewed=

# Only what differs is replaced, and at once: the kubelet starts the programs of all manifests anew that it sees vanish. It
# does not look at names that begin with a dot.
bring_back() {
	kept=$(mktemp -d)
	tar -xpf "$archive" -C "$kept"
	find "$kept" -type f | while read -r copy; do
		file=${copy#"$kept"}
		[ -e "$file" ] && [ "$(sha256sum <"$copy")" = "$(sha256sum <"$file")" ] && continue
		mkdir -p "${file%/*}"
		cp -p -- "$copy" "${file%/*}/.${file##*/}.new"
		mv -f -- "${file%/*}/.${file##*/}.new" "$file"
	done
	rm -rf -- "$kept"
}

for what; do
	case $role:$what in
	*:files) bring_back ;;
	ControlPlane:certificates)
		kubeadm certs renew all --config "$config"
		renewed=yes
		;;
	ControlPlane:kubelet-certificate)
		rm -f /etc/kubernetes/kubelet.conf /var/lib/kubelet/pki/kubelet-client-*
		kubeadm init phase kubeconfig kubelet --config "$config"
		;;
	esac
done
if [ -n "$renewed" ]; then
	# What is in memory is renewed when the programs start again; the kubelet starts them.
	for name in kube-apiserver kube-controller-manager kube-scheduler etcd; do
		for task in $(ctr --namespace k8s.io containers ls -q "labels.\"io.kubernetes.container.name\"==$name"); do
			ctr --namespace k8s.io tasks kill --signal SIGTERM "$task" 2>/dev/null || :
		done
	done
fi
rm -f -- "$config"
