# Links programs into a directory, by name, each link replaced at once. Arguments: the directory, the one for plugins of
# container runtimes, names and programs by turns, and "--".
set -eu
bin=$1 plugins=$2
shift 2
mkdir -p "$bin" "$plugins"
while [ "$1" != -- ]; do
	folder=$bin
	case $1 in
	loopback | prismnet) folder=$plugins ;;
	esac
	if ! [ "$folder/$1" -ef "$2" ]; then # where it is the other way round, it stays so
		ln -sfn -- "$2" "$folder/.$1.new"
		mv -fT -- "$folder/.$1.new" "$folder/$1"
	fi
	shift 2
done
shift
# Programs below a directory of libraries are none to SELinux, unless it is told.
if [ -e /sys/fs/selinux/enforce ]; then
	chcon -R -t bin_t "${bin%/bin}/release" || :
fi
