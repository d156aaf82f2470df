# Tells how a host is, in sections. Arguments: the unit, the list of what was laid, the data directory, and the words of
# kubectl.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C
unit=$1 laid=$2 data=$3 program=$4
shift 3
echo "== state"
state=$(systemctl is-active "$unit")
echo "$state"
echo "== changed"
if [ -e "$laid" ]; then
	sha256sum --check "$laid" 2>/dev/null | sed -n 's/: FAILED.*$//p'
else
	echo "$laid"
fi
echo "== certificates"
find "$data/server/tls" "$data/agent" -maxdepth 3 \( -name '*.crt' -o -name '*-current.pem' \) ! -path '*/temporary-certs/*' 2>/dev/null | while read -r file; do
	echo "file $file"
	sed -n '/-----BEGIN CERTIFICATE-----/,/-----END CERTIFICATE-----/p' "$file"
done
[ "$state" = active ] && [ -d "$data/server" ] || exit 0
echo "== api"
timeout 15 "$@" get --raw=/readyz 2>&1 | tail -n 1
echo
echo "== members"
[ ! -d "$data/server/db/etcd" ] || [ "$(basename "$program")" != k8shost ] ||
	timeout 40 "$program" etcd-member ls --data-dir "$data" --output json 2>&1
exit 0
