# Removes from the host what was made to make it a node. It may be repeated, on a host that was left in the middle of
# anything. Arguments: the file that says that the host is one of ours; without it, nothing here is.
set -u
root=/usr/local/lib/plasmacloud state=/var/lib/plasmacloud
[ -e "$1" ] || exit 0
export PATH="$root/bin:$PATH"
for unit in kubelet.service prismnet.service; do
	systemctl disable --now --quiet "$unit" 2>/dev/null
done
if [ -x "$root/bin/kubeadm" ] && [ -e /etc/systemd/system/containerd.service ]; then
	systemctl start containerd.service 2>/dev/null
	# It ends the pods, and leaves the cluster where that answers; what it leaves here goes below.
	timeout 120 kubeadm reset --force --cri-socket unix:///run/containerd/containerd.sock >/dev/null 2>&1
fi
systemctl disable --now --quiet containerd.service 2>/dev/null

# Containers outlive their runtime. Programs that the host had already are run from where it has them.
for attempt in 1 2 3 4 5 6 7 8 9 10; do
	found=
	for path in /proc/[0-9]*/exe; do
		process=${path#/proc/} process=${process%/exe}
		case $(readlink "$path" 2>/dev/null) in
		"$root"/*) found=yes && kill -s KILL "$process" 2>/dev/null ;;
		*/containerd-shim-runc-v2*)
			case " $(tr '\0' ' ' <"/proc/$process/cmdline" 2>/dev/null)" in
			*" -address /run/containerd/containerd.sock "*) found=yes && kill -s KILL "$process" 2>/dev/null ;;
			esac
			;;
		esac
	done
	for processes in $(find /sys/fs/cgroup/kubepods* /sys/fs/cgroup/*/kubepods* -name cgroup.procs 2>/dev/null); do
		for process in $(cat "$processes" 2>/dev/null); do
			[ "$process" -gt 1 ] && found=yes && kill -s KILL "$process" 2>/dev/null
		done
	done
	[ -n "$found" ] || break
	sleep 0.3
done
tac /proc/self/mounts | while read -r _ mounted _; do
	case $mounted in
	/run/containerd/* | /var/lib/containerd/* | /var/lib/kubelet/* | /run/netns/cni-* | /var/run/netns/cni-*) umount -l "$mounted" ;;
	esac
done

if [ -x "$root/release/bin/prismnet" ] && [ -d "$state/network" ]; then
	"$root/release/bin/prismnet" cleanup --state-dir "$state/network"
fi
for family in ip ip6; do
	nft delete table "$family" kube-proxy 2>/dev/null
done

for unit in containerd.service kubelet.service prismnet.service; do
	if grep -q '^# Laid by PlasmaCloud' "/etc/systemd/system/$unit" 2>/dev/null; then
		rm -f "/etc/systemd/system/$unit"
	fi
done
rm -f /etc/systemd/system/kubelet.service.d/10-kubeadm.conf
rmdir /etc/systemd/system/kubelet.service.d 2>/dev/null
for plugin in loopback prismnet; do
	case $(readlink "/opt/cni/bin/$plugin" 2>/dev/null) in
	"$root"/*) rm -f "/opt/cni/bin/$plugin" ;;
	esac
done
rm -f /opt/cni/bin/prismnet /etc/cni/net.d/10-prismnet.conflist
rm -rf /etc/kubernetes /var/lib/kubelet /var/lib/etcd /var/lib/containerd /run/containerd /var/log/pods /var/log/containers "$root" "$state/kubeadm" "$state/network"
rmdir /opt/cni/bin /opt/cni /etc/cni/net.d /etc/cni 2>/dev/null
systemctl daemon-reload
exit 0
