# The first process of a test's host: gives it a file system of its own, above the machine's, and stays to bury the dead.
# Arguments: an empty directory.
set -eu
# What nodes on the machine have mounted is none of the host's. Nothing of this is seen outside of its namespace.
tac /proc/self/mounts | while read -r _ mounted _; do
	case $mounted in
	/run/k8shost/* | /var/lib/k8shost/* | /var/lib/plasmacloud/*) echo "$mounted" ;;
	esac
done | xargs --no-run-if-empty umount -l 2>/dev/null || :
mount -t tmpfs -o mode=0755,size=16g layers "$1"
for folder in etc usr var opt srv; do
	[ -d "/$folder" ] || continue
	mkdir -p "$1/$folder/upper" "$1/$folder/work"
	mount -t overlay -o "lowerdir=/$folder,upperdir=$1/$folder/upper,workdir=$1/$folder/work" overlay "/$folder"
done
# The machine's user may have a shell that does a lot before it begins.
mount -t tmpfs -o mode=0700 home /root
mount -t tmpfs -o mode=0755 run /run
mount -t tmpfs -o mode=0755,size=1m small /mnt
mount -t proc proc /proc
mkdir -p /run/sshd
rm -rf /etc/plasmacloud-lease /var/lib/plasmacloud /var/lib/k8shost /etc/k8shost /usr/local/bin/k8shost
ip link set lo up
echo ready
while :; do
	sleep 1 &
	wait "$!" || :
done
