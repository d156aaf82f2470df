# Prints what matters about a host before it becomes a node, one fact a line, in the form name=value. Changes nothing.
# Arguments: the file that says that the host is one of ours, and the programs that are needed.
set -u
mark=$1
shift
echo "container=$(tr '\0' '\n' </proc/1/environ 2>/dev/null | sed -n 's/^container=//p')"
[ ! -d /run/systemd/system ] || echo systemd=yes
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo cgroup=v2; else echo cgroup=v1; fi
echo "capabilities=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)"
[ ! -e /sys/fs/selinux/enforce ] || echo "selinux=$(cat /sys/fs/selinux/enforce)"
echo "now=$(date +%s)"
if [ -e "$mark" ]; then
	echo "ours=$(cat -- "$mark")"
elif [ -n "$(find /etc/k8shost -type f -print -quit 2>/dev/null)" ]; then
	echo ours=k8shost
fi
for program; do
	command -v "$program" >/dev/null || echo "missing=$program"
done
sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) [0-9A-F:]* 0A .*/listen=\1/p' /proc/net/tcp /proc/net/tcp6 2>/dev/null
grep -qw overlay /proc/filesystems || modprobe -n -q overlay 2>/dev/null || echo missing-file-system=overlay
for unit in firewalld ufw docker crio k3s k3s-agent rke2-server rke2-agent k0scontroller k0sworker containerd kubelet; do
	[ "$(systemctl is-active "$unit" 2>/dev/null)" != active ] || echo "active=$unit"
done
[ ! -e /etc/ufw/ufw.conf ] || sed -n 's/^ENABLED=/ufw=/p' /etc/ufw/ufw.conf
for folder in /etc/kubernetes /var/lib/kubelet /var/lib/etcd /var/lib/containerd; do
	[ -z "$(find "$folder" -type f -print -quit 2>/dev/null)" ] || echo "used=$folder"
done
exit 0
