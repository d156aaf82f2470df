# Makes the server of this host the only member of its etcd, with the data that it has. Arguments: the unit, the file of
# settings, the program.
set -eu
unit=$1 settings=$2 program=$3
alone=$settings.alone
trap 'rm -f -- "$alone"' EXIT
umask 077
grep -v -e '^server:' -e '^cluster-init:' -e '^token-file:' "$settings" >"$alone"
systemctl stop "$unit"
"$program" server --config "$alone" --cluster-reset >&2
systemctl start "$unit"
