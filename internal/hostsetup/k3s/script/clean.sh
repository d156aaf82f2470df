# Removes a server or an agent from the host, k8shost's or k3s': services, pods, mounts, interfaces, rules and files.
# Arguments: the data directory. It may be repeated.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C
set -u
data=$1
k8shost=/usr/local/lib/plasmacloud/release/bin/k8shost
for unit in k8shost-server k8shost-agent k8shost k8shost-network; do
	[ -e "/etc/systemd/system/$unit.service" ] || continue
	systemctl disable --now --quiet "$unit.service" 2>/dev/null
	rm -f "/etc/systemd/system/$unit.service"
done
systemctl daemon-reload
if [ -x $k8shost ] && [ -e "$data/lock" ]; then
	$k8shost down --data-dir "$data" || exit
fi
# What k3s leaves running: its own programs, which it unpacks into its data, and the pods.
tries=0
while [ -d /run/k3s ] && [ $tries -lt 50 ]; do
	found=
	for path in /proc/[0-9]*/exe; do
		case $(readlink "$path" 2>/dev/null) in
		"$data"/data/* | /usr/local/lib/plasmacloud/k3s/*)
			process=${path#/proc/}
			kill -KILL "${process%/exe}" 2>/dev/null && found=yes
			;;
		esac
	done
	for process in $(find /sys/fs/cgroup -path '*kubepods*' -name cgroup.procs -exec cat {} + 2>/dev/null); do
		kill -KILL "$process" 2>/dev/null && found=yes
	done
	[ -n "$found" ] || break
	tries=$((tries + 1))
	sleep 0.1
done
tac /proc/self/mounts | while read -r _ mounted _; do
	case $mounted in
	"$data"/* | /run/k8shost/* | /run/k3s/* | /var/lib/kubelet/pods/*) umount -l "$mounted" ;;
	esac
done
if [ -x /usr/local/lib/plasmacloud/release/bin/prismnet ] && [ -d "$data/agent/network" ]; then
	/usr/local/lib/plasmacloud/release/bin/prismnet cleanup --state-dir "$data/agent/network" --cni-conf-dir /etc/cni/net.d || :
fi
if [ -d /run/k3s ]; then
	for tool in iptables ip6tables; do
		if command -v $tool-save >/dev/null; then
			$tool-save | grep -v KUBE- | $tool-restore
		fi
	done
	rm -rf /run/k3s /var/lib/kubelet /opt/cni/bin/loopback /opt/cni/bin/prismnet
fi
if command -v nft >/dev/null; then
	nft list tables | while read -r _ family table; do
		case $table in
		kube-proxy | prismnet-* | prismpolicy-*) nft delete table "$family" "$table" ;;
		esac
	done
fi
sed -n 's/^ *\([^:]*\):.*/\1/p' /proc/net/dev | while read -r interface; do
	case $interface in
	prism-* | pn?????????????) ip link delete "$interface" ;;
	esac
done
for name in k8shost k3s; do
	case $(readlink "/usr/local/bin/$name") in
	/usr/local/lib/plasmacloud/*) rm -f "/usr/local/bin/$name" ;;
	esac
done
# The data directory may be a disk of its own, and what a machine keeps of its root may be there too.
if [ -d "$data" ]; then
	find "$data" -mindepth 1 -maxdepth 1 ! -name kept ! -name lost+found -exec rm -rf {} +
	rmdir "$data" 2>/dev/null
fi
# The kubelet has its device plugins here, wherever the rest of its data is.
rm -rf /var/lib/kubelet/device-plugins
rmdir /var/lib/kubelet 2>/dev/null
rm -rf /run/k8shost /etc/k8shost /usr/local/lib/plasmacloud
exit 0
