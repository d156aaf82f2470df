# Lays small files that everybody may read, each put into its place at once, and prints those that have changed.
# Arguments: where they go. Standard input: an archive in which they are called 0, 1, 2 and so on.
set -eu
umask 022
bundle=$(mktemp -d)
trap 'rm -rf -- "$bundle"' EXIT
tar -xf - -C "$bundle"
number=0
for path; do
	file=$bundle/$number
	number=$((number + 1))
	if [ -f "$path" ] && [ ! -L "$path" ] && [ "$(sha256sum <"$file")" = "$(sha256sum <"$path")" ]; then
		continue
	fi
	mkdir -p -- "$(dirname -- "$path")"
	cp -- "$file" "$path.new"
	chmod 0644 -- "$path.new"
	mv -fT -- "$path.new" "$path"
	echo "$path"
done
