# Makes a unit run, now and at every start. Arguments: the unit, and start or restart.
set -eu
systemctl daemon-reload
systemctl enable --quiet "$1"
systemctl reset-failed "$1" 2>/dev/null || :
if ! systemctl "$2" "$1"; then
	journalctl --no-pager --lines=5 --output=cat --unit="$1" >&2 || :
	exit 1
fi
