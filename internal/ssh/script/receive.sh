# Receives a file, or the rest of it, and puts it into its place at once. Arguments: its path, its checksum, mode, owner
# and size, and where the bytes on standard input begin. Writing at a place instead of to the end makes it harmless that
# two of these may be at work on one file. Exit codes: 75 for bytes that are missing, 65 for wrong ones.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C
set -eu
umask 077
folder=$(dirname -- "$1")
part=$folder/.$(basename -- "$1").$2.part
[ -d "$folder" ] || (umask 022 && mkdir -p -- "$folder")
[ ! -L "$part" ] || rm -f -- "$part"
dd of="$part" bs=256k iflag=fullblock oflag=seek_bytes seek="$6" conv=notrunc,fsync status=none || {
	code=$?
	rm -f -- "$part" # a full disk is not helped by half a file
	exit "$code"
}
[ "$(stat -c %s -- "$part")" -ge "$5" ] || exit 75
sum=$(sha256sum <"$part")
if [ "${sum%% *}" != "$2" ]; then
	rm -f -- "$part"
	exit 65
fi
chown -- "$4" "$part"
chmod -- "$3" "$part"
mv -fT -- "$part" "$1"
sync -- "$folder"
