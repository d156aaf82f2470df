# Ends a supervised command whose connection was lost, and returns when it has ended. Standard input is its marker.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
IFS= read -r marker && [ -n "$marker" ] || exit 1
signal=TERM
for second in 1 2 3 4 5 6 7 8 9 10; do
	found=$(printf '%s\n' "$marker" | grep -lsaF -f - /proc/[0-9]*/cmdline)
	[ -n "$found" ] || exit 0
	for file in $found; do
		process=${file#/proc/}
		kill -s "$signal" "${process%/cmdline}" 2>/dev/null
	done
	[ "$second" = 8 ] && signal=KILL
	sleep 1
done
exit 1
