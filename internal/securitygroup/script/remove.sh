# Takes the ruleset off the host and prints what is left of it, one thing a line. It may be repeated. Arguments: the
# ruleset's file, the file with how the kernel listed it, its table and its unit.
set -u
file=/etc/systemd/system/$4
if [ -e "$file" ]; then
	systemctl --quiet disable --now "$4"
	rm -f -- "$file" "$file".*.new
	systemctl daemon-reload
fi
loaded() { command -v nft >/dev/null && nft list table inet "$3" >/dev/null 2>&1; }
if loaded "$@"; then
	nft delete table inet "$3"
fi
rm -f -- "$1" "$1".*.new "$2"
if [ -d "${1%/*}" ]; then
	rmdir --ignore-fail-on-non-empty -- "${1%/*}"
fi
if loaded "$@"; then
	echo "firewall table inet $3"
fi
for left in "$1" "$2" "$file" /etc/systemd/system/*.wants/"$4"; do
	if [ -e "$left" ] || [ -L "$left" ]; then
		echo "file $left"
	fi
done
exit 0
