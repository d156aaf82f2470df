# Sets the host up for containers. Arguments: "machine" for a machine that is a pod, whose kernel is its host's, or
# "host"; then the modules to load. Standard input: sysctls, name=value.
set -eu
kind=$1
shift
if [ "$kind" = host ]; then
	printf '%s\n' "$@" >/etc/modules-load.d/plasmacloud.conf
	for module; do
		modprobe "$module" 2>/dev/null || : # it may be a part of the kernel; what is missing shows below
	done
	# Swap stays off after the next start too; Clean undoes both.
	if [ "$(wc -l </proc/swaps)" -gt 1 ]; then
		swapoff -a
	fi
	[ ! -e /etc/fstab ] || sed -i '/^[^#].*[[:space:]]swap[[:space:]]/s/^/# plasmacloud: /' /etc/fstab
fi
settings=
while IFS='=' read -r name value; do
	file=/proc/sys/$(echo "$name" | tr . /)
	[ -e "$file" ] || continue
	case $kind:$name in
	host:* | machine:net.*) ;;
	*) continue ;; # it would be the host's
	esac
	settings="$settings$name = $value
"
	now=$(cat "$file")
	case $name in
	fs.inotify.*) [ "$now" -lt "$value" ] || continue ;;
	esac
	[ "$now" = "$value" ] || echo "$value" >"$file"
done
if [ "$kind" = host ]; then
	printf '%s' "$settings" >/etc/sysctl.d/90-plasmacloud.conf
fi
