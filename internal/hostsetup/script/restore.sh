# Undoes what was set up on the host for containers, and forgets that the host is one of ours. It may be repeated.
# Arguments: the file that says so.
set -u
if [ -e /etc/fstab ] && grep -q '^# plasmacloud: ' /etc/fstab; then
	sed -i 's/^# plasmacloud: //' /etc/fstab
	swapon -a
fi
rm -f /etc/modules-load.d/plasmacloud.conf /etc/sysctl.d/90-plasmacloud.conf "$1"
exit 0
