# Lets keys log in as root. Standard input: lines of authorized_keys. What an earlier call has added is replaced.
set -eu
umask 077
mkdir -p /root/.ssh
file=/root/.ssh/authorized_keys
new=$file.plasmacloud
[ ! -e "$file" ] || sed '/^# plasmacloud begin$/,/^# plasmacloud end$/d' "$file" >"$new"
{
	echo '# plasmacloud begin'
	cat
	echo '# plasmacloud end'
} >>"$new"
mv -f "$new" "$file"
