# Links programs into a directory, by name, each link replaced at once. Arguments: the directory, the one for plugins of
# container runtimes, and names and programs by turns.
set -eu
bin=$1 plugins=$2
shift 2
mkdir -p "$bin" "$plugins"
while [ "$#" -gt 0 ]; do
	folder=$bin
	case $1 in
	loopback | prismnet) folder=$plugins ;;
	esac
	if [ "$(readlink -- "$folder/$1" || :)" != "$2" ]; then
		ln -sfn -- "$2" "$folder/.$1.new"
		mv -fT -- "$folder/.$1.new" "$folder/$1"
	fi
	shift 2
done
# Programs below a directory of libraries are none to SELinux, unless it is told.
if [ -e /sys/fs/selinux/enforce ]; then
	chcon -R -t bin_t "${bin%/bin}/release" || :
fi
