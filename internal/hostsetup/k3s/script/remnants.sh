# Prints what is left of a server or an agent, one thing a line; nothing where the host is clean. Arguments: the data
# directory.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C
set -u
for path in "$1" /run/k8shost /run/k3s /etc/k8shost /usr/local/lib/plasmacloud; do
	[ ! -d "$path" ] || [ -z "$(ls -A -I kept -I lost+found "$path")" ] || echo "directory $path"
done
for path in /etc/systemd/system/k8shost*.service; do
	[ ! -e "$path" ] || echo "unit $path"
done
while read -r _ mounted _; do
	case $mounted in
	"$1"/* | /run/k8shost/* | /run/k3s/*) echo "mount $mounted" ;;
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
		kube-proxy | prismnet-* | prismpolicy-*) echo "firewall table $family $table" ;;
		esac
	done
fi
for path in /proc/[0-9]*/exe; do
	case $(readlink "$path" 2>/dev/null) in
	/usr/local/lib/plasmacloud/*) process=${path#/proc/} && echo "process ${process%/exe}" ;;
	esac
done
exit 0
