# Prints what a host is, one fact a line, in the form name=value; the lines of os-release are facts with the prefix os.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C
echo "uid=$(id -u)"
echo "machine=$(uname -m)"
echo "kernel=$(uname -r)"
echo "hostname=$(uname -n)"
echo "cpus=$(nproc)"
echo "machineid=$(cat /etc/machine-id 2>/dev/null)"
echo "bootid=$(cat /proc/sys/kernel/random/boot_id)"
echo "init=$(cat /proc/1/comm)"
sed -n 's/^MemTotal: *\([0-9]*\) kB$/memory=\1/p' /proc/meminfo
echo "free=$(df -k --output=avail /var/lib | tail -n 1 | tr -d " ")"
sed -n 's/^\([A-Z_]*\)=/os.\1=/p' /etc/os-release
