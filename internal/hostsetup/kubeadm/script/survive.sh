# Changes how the etcd of this host is started. Arguments: begin, so that it makes itself the only member of its cluster
# with the data that it has; or end, so that it is one as any other. The kubelet starts it anew in both cases.
set -eu
manifest=/etc/kubernetes/manifests/etcd.yaml
new=/etc/kubernetes/etcd.yaml.new
flag=--force-new-cluster
trap 'rm -f -- "$new"' EXIT
umask 077
case $1 in
begin)
	grep -q -e "- $flag$" "$manifest" && exit 0
	sed "s/^\( *\)- etcd\$/&\n\1- $flag/" "$manifest" >"$new"
	grep -q -e "- $flag$" "$new" || { echo "$manifest is not as kubeadm writes it" >&2; exit 1; }
	;;
end)
	grep -q -e "- $flag$" "$manifest" || exit 0
	grep -v -e "- $flag$" "$manifest" >"$new"
	;;
esac
mv -f -- "$new" "$manifest"
