# Prints what is left of a node on the host, one thing a line; nothing where that is clean. Arguments: the file that says
# that the host is one of ours.
set -u
[ -e "$1" ] || exit 0
for path in /etc/kubernetes /var/lib/kubelet /var/lib/etcd /var/lib/containerd /run/containerd /usr/local/lib/plasmacloud; do
	[ ! -d "$path" ] || [ -z "$(ls -A "$path")" ] || echo "directory $path"
done
for unit in containerd.service kubelet.service prismnet.service; do
	! grep -q '^# Laid by PlasmaCloud' "/etc/systemd/system/$unit" 2>/dev/null || echo "unit $unit"
done
for path in /proc/[0-9]*/exe; do
	process=${path#/proc/} process=${process%/exe}
	case $(readlink "$path" 2>/dev/null) in
	/usr/local/lib/plasmacloud/*) echo "process $process" ;;
	*/containerd-shim-runc-v2*)
		case " $(tr '\0' ' ' <"/proc/$process/cmdline" 2>/dev/null)" in
		*" -address /run/containerd/containerd.sock "*) echo "process $process" ;;
		esac
		;;
	esac
done
while read -r _ mounted _; do
	case $mounted in
	/run/containerd/* | /var/lib/containerd/* | /var/lib/kubelet/*) echo "mount $mounted" ;;
	esac
done </proc/self/mounts
sed -n 's/^ *\([^:]*\):.*/\1/p' /proc/net/dev | while read -r interface; do
	case $interface in
	prism-* | pn?????????????) echo "interface $interface" ;;
	esac
done
if command -v nft >/dev/null; then
	nft list tables | while read -r _ family table; do
		case $table in
		prismnet-* | prismpolicy-* | kube-proxy) echo "firewall table $family $table" ;;
		esac
	done
fi
exit 0
