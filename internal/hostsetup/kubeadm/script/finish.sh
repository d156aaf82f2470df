# The last steps of making a host a part of a cluster. Arguments: the pod network's unit, which there may be none of, the
# file for checksums of what must not change, the file that says that all is done, what it says, and whether what kubeadm
# has made is new or old.
set -eu
network=$1 laid=$2 finished=$3 word=$4 made=$5
systemctl daemon-reload
systemctl enable --quiet containerd.service kubelet.service
systemctl start containerd.service kubelet.service
if [ -e "/etc/systemd/system/$network" ]; then
	systemctl enable --quiet "$network"
	systemctl restart "$network"
fi
umask 077
for file in /usr/local/lib/plasmacloud/containerd.toml /etc/systemd/system/containerd.service /etc/systemd/system/kubelet.service \
	/etc/systemd/system/kubelet.service.d/10-kubeadm.conf "/etc/systemd/system/$network"; do
	[ ! -e "$file" ] || sha256sum -- "$file"
done >"$laid.new"
if [ "$made" = old ] && [ -e "$laid" ]; then
	grep -e ' /var/lib/kubelet/' -e ' /etc/kubernetes/' "$laid" >>"$laid.new"
else
	for file in /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env /etc/kubernetes/manifests/*.yaml; do
		[ ! -e "$file" ] || echo "$file"
	done >"$laid.files"
	while read -r file; do
		sha256sum -- "$file"
	done <"$laid.files" >>"$laid.new"
	# A repair brings them back from here. There are no secrets in them.
	tar -cpf "$laid.tar.new" -P -T "$laid.files"
	mv -f -- "$laid.tar.new" "$laid.tar"
	rm -f -- "$laid.files"
fi
mv -f -- "$laid.new" "$laid"
printf '%s\n' "$word" >"$finished.new"
mv -f -- "$finished.new" "$finished"
