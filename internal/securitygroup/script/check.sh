# Says what is wrong with the host's ruleset; nothing where all is well. Arguments: the ruleset's file, the file with how
# the kernel listed it, its table and its unit. Standard input: the ruleset that it should be, or nothing.
set -u
wanted=$(cat)
if [ ! -e "$1" ]; then
	echo 'it is not installed'
elif [ -n "$wanted" ] && [ "$wanted" != "$(cat "$1")" ]; then
	echo 'it has other rules than it should'
elif ! loaded=$(nft --stateless list table inet "$3" 2>/dev/null); then
	echo 'it is not loaded'
elif [ "$loaded" != "$(cat "$2" 2>/dev/null)" ]; then
	echo 'what is loaded was changed by hand'
elif ! systemctl --quiet is-enabled "$4"; then
	echo 'it would not be loaded at the next boot'
fi
