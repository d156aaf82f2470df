# Runs a command for as long as somebody holds the other end of its leash, which is this shell's standard input.
# Arguments: a marker that occurs nowhere else, a file and what must be in it (or two empty words), the directory to run
# in (or an empty word), and the command. Standard input: the environment as assignments, a line with the marker, the
# command's input in base64, a line with the marker; then nothing, until it is to be ended. After the command's output
# comes a line with the marker and the exit code, on both streams: what the command left behind may keep them open.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL
plasma_id=$1 plasma_guard=$2 plasma_token=$3 plasma_dir=$4
shift 4
plasma_newline='
'

plasma_take() {
	plasma_text=
	while IFS= read -r plasma_line; do
		[ "$plasma_line" = "$plasma_id" ] && return
		plasma_text=$plasma_text$plasma_line$plasma_newline
	done
	exit 255 # the connection has ended before the command began
}

plasma_report() {
	printf '\n%s %s\n' "$plasma_id" "$1"
	printf '\n%s %s\n' "$plasma_id" "$1" >&2
}

plasma_stop() {
	kill -s TERM -- "-$plasma_pid" || kill -s TERM "$plasma_pid"
	for plasma_second in 1 2 3 4 5; do
		kill -s 0 -- "-$plasma_pid" || return
		sleep 1
	done
	kill -s KILL -- "-$plasma_pid"
}

plasma_take
plasma_env=$plasma_text
plasma_take
if [ -n "$plasma_guard" ] && [ "$(cat -- "$plasma_guard" 2>/dev/null)" != "$plasma_token" ]; then
	plasma_report guard
	exit
fi
exec 3<&0
printf %s "$plasma_text" | base64 -d | {
	exec 4<&0
	(
		eval "$plasma_env"
		cd -- "${plasma_dir:-/}" || exit 126
		exec setsid sh -c 'exec "$@"' sh "$@"
	) <&4 3<&- 4<&- &
	plasma_pid=$!
	{
		while IFS= read -r plasma_line <&3; do :; done
		trap '' TERM # the command may end before all that it started has
		plasma_stop
	} >/dev/null 2>&1 4<&- &
	plasma_leash=$!
	exec 3<&- 4<&- </dev/null
	trap 'plasma_stop >/dev/null 2>&1' HUP TERM
	wait "$plasma_pid" 2>/dev/null
	plasma_code=$?
	kill "$plasma_leash" 2>/dev/null
	plasma_report "$plasma_code"
}
