# Removes from the host what PlasmaCloud has put there. Arguments: the file that lists what was laid. It may be repeated.
set -u
if [ -d /var/lib/k8shost ] && command -v k8shost >/dev/null; then
	k8shost down --data-dir /var/lib/k8shost --purge || exit
fi
tac /proc/self/mounts | while read -r _ mounted _; do
	case $mounted in
	/var/lib/k8shost/* | /run/k8shost/* | /var/lib/plasmacloud/*) umount -l "$mounted" ;;
	esac
done
if command -v nft >/dev/null; then
	nft list tables | while read -r _ family table; do
		case $table in
		prismnet-* | prismpolicy-* | plasmacloud*) nft delete table "$family" "$table" ;;
		esac
	done
fi
sed -n 's/^ *\([^:]*\):.*/\1/p' /proc/net/dev | while read -r interface; do
	case $interface in
	prism-* | pn?????????????) ip link delete "$interface" ;;
	esac
done
if [ -e "$1" ]; then
	while IFS= read -r laid; do
		rm -f -- "$laid" "$(dirname -- "$laid")/.$(basename -- "$laid")".*.part
	done <"$1"
fi
if [ -e /root/.ssh/authorized_keys ]; then
	sed -i '/^# plasmacloud begin$/,/^# plasmacloud end$/d' /root/.ssh/authorized_keys
	[ -s /root/.ssh/authorized_keys ] || rm -f /root/.ssh/authorized_keys
fi
for path in /run/k8shost /var/lib/plasmacloud; do
	grep -q " $path/" /proc/self/mounts || rm -rf -- "$path"
done
# A machine that is a pod has its disk here, and directories of it are mounted elsewhere.
if [ -d /var/lib/k8shost ] && ! grep -q " /var/lib/k8shost/" /proc/self/mounts; then
	find /var/lib/k8shost -mindepth 1 -maxdepth 1 ! -name kept ! -name lost+found -exec rm -rf -- {} +
	rmdir /var/lib/k8shost 2>/dev/null
fi
rm -rf /usr/local/lib/plasmacloud /etc/k8shost
exit 0
