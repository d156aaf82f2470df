# Takes the host for a machine, unless somebody has it, and prints who has it then. Arguments: the file that says so, and
# the machine's ID.
set -eu
umask 077
mkdir -p -- "$(dirname -- "$1")"
printf '%s\n' "$2" >"$1.$2"
ln -- "$1.$2" "$1" 2>/dev/null || :
rm -f -- "$1.$2"
cat -- "$1"
