# Sees that a unit runs, and that it was started with what is laid now. Arguments: the unit, a name of what it is to have
# been started with, its log, for how many seconds to wait, and true where it is to be restarted in any case.
# Exit code 70: it does not come up.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C
set -eu
umask 077
unit=$1 wanted=$2 log=$3 patience=$4 restart=$5
started=/run/k8shost/started-$unit
mkdir -p /run/k8shost "$(dirname -- "$log")"
if command -v selinuxenabled >/dev/null && selinuxenabled; then
	chcon -R -t bin_t /usr/local/lib/plasmacloud
fi
systemctl daemon-reload
systemctl enable --quiet "$unit"
if [ "$restart" = true ] || [ "$(cat "$started" 2>/dev/null || :)" != "$wanted" ]; then
	systemctl reset-failed --quiet "$unit" 2>/dev/null || :
	systemctl restart --no-block "$unit"
	printf '%s' "$wanted" >"$started"
fi
# The first start ends with its first failure, but the unit is started again and again: a server that it joins may be
# busy at first.
deadline=$(($(date +%s) + patience))
before=$(systemctl show --property NRestarts --value "$unit")
timeout "$patience" systemctl start "$unit" 2>/dev/null || :
while ! systemctl is-active --quiet "$unit"; do
	ended=$(($(systemctl show --property NRestarts --value "$unit") - before))
	if [ "$ended" -ge 10 ] || [ "$(date +%s)" -ge "$deadline" ]; then
		echo "$unit does not come up: it ended $ended times; its last words:" >&2
		tail -n 3 -- "$log" >&2 || :
		exit 70
	fi
	sleep 0.5
done
