# Prints what PlasmaCloud has left on the host, one thing a line; nothing where that is clean. Arguments: the file that
# lists what was laid.
set -u
# What a machine that is a pod keeps of itself on its disk is not ours to remove.
for path in /var/lib/k8shost /run/k8shost /var/lib/plasmacloud /usr/local/lib/plasmacloud /etc/k8shost; do
	[ ! -d "$path" ] || [ -z "$(find "$path" -mindepth 1 -maxdepth 1 ! -name kept ! -name lost+found)" ] || echo "directory $path"
done
if [ -e "$1" ]; then
	while IFS= read -r laid; do
		for path in "$laid" "$(dirname -- "$laid")/.$(basename -- "$laid")".*.part; do
			[ ! -e "$path" ] || echo "file $path"
		done
	done <"$1"
fi
while read -r _ mounted _; do
	case $mounted in
	/var/lib/k8shost/* | /run/k8shost/* | /var/lib/plasmacloud/*) echo "mount $mounted" ;;
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
		prismnet-* | prismpolicy-* | plasmacloud*) echo "firewall table $family $table" ;;
		esac
	done
fi
if [ -e /root/.ssh/authorized_keys ] && grep -q '^# plasmacloud begin$' /root/.ssh/authorized_keys; then
	echo "keys in /root/.ssh/authorized_keys"
fi
for path in /proc/[0-9]*/exe; do
	case $(readlink "$path" 2>/dev/null) in
	*/k8shost | */k8shost' (deleted)' | /usr/local/lib/plasmacloud/*) process=${path#/proc/} && echo "process ${process%/exe}" ;;
	esac
done
exit 0
