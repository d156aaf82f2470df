# Makes a ruleset the host's, unless it is that already; prints "changed" if it did. It may be repeated. Arguments: the
# ruleset's file, the file for how the kernel lists it, its table, its unit and that one's text. Standard input: the ruleset.
set -eu
rules=$1 record=$2 table=$3 file=/etc/systemd/system/$4 unit=$4 text=$5
if ! command -v nft >/dev/null; then
	exit 69
fi
wanted=$(cat)
content() { cat -- "$1" 2>/dev/null || :; }
loaded=$(nft --stateless list table inet "$table" 2>/dev/null) || :
if [ "$wanted" = "$(content "$rules")" ] && [ -n "$loaded" ] && [ "$loaded" = "$(content "$record")" ] &&
	[ "$text" = "$(content "$file")
" ] && systemctl --quiet is-enabled "$unit"; then
	exit
fi
# What the kernel would not take must not be there at the next boot either.
printf '%s\n' "$wanted" | nft --check --file -
umask 022
mkdir -p "${rules%/*}"
lay() {
	new=$1.$$.new
	trap 'rm -f "$new"' EXIT
	cat >"$new"
	sync "$new"
	mv "$new" "$1"
}
printf '%s\n' "$wanted" | lay "$rules"
printf %s "$text" | lay "$file"
systemctl daemon-reload
systemctl --quiet enable "$unit"
systemctl restart "$unit"
if [ "$(nft --stateless list table inet "$table")" != "$(cat "$record")" ]; then
	echo "$unit has not loaded $rules; see journalctl -u $unit" >&2
	exit 1
fi
echo changed
