package host

import "fmt"

const (
	mebi = 1 << 20
	gibi = 1 << 30
)

func (f *Facts) checkMemory() Finding {
	what := size(f.Memory)
	switch {
	case f.Memory < gibi:
		return Finding{Missing, "memory", what, "a server needs 1 GiB at the very least, 2 GiB to be of use"}
	case f.Memory < 2*gibi:
		return Finding{Warning, "memory", what, "2 GiB leave room for pods beside a server"}
	default:
		return Finding{OK, "memory", what, ""}
	}
}

func (f *Facts) checkSwap() Finding {
	if len(f.Swap) == 0 {
		return Finding{OK, "swap", "off", ""}
	}
	return Finding{Warning, "swap", fmt.Sprintf("on: %v", f.Swap), "swapoff -a keeps memory limits of pods exact; kubelet is configured to start all the same"}
}

// checkDisk warns where kubelet would soon evict pods, at 15 % free.
func (f *Facts) checkDisk() Finding {
	d := f.Disk
	what := fmt.Sprintf("%s free of %s at %s (%s)", size(d.Free), size(d.Size), d.Existing, d.FileSystem)
	switch {
	case d.Free < 512*mebi:
		return Finding{Missing, "disk", what, "free space, or put --data-dir on a larger file system"}
	case d.Free < 4*gibi || d.Free < d.Size/100*15:
		return Finding{Warning, "disk", what, "free space: kubelet evicts pods where a disk runs full"}
	case d.FileSystem == "tmpfs" || d.FileSystem == "ramfs":
		return Finding{Warning, "disk", what, "what is kept there is lost at the next boot: put --data-dir on a disk"}
	case d.FileSystem == "nfs" || d.FileSystem == "nfs4" || d.FileSystem == "cifs":
		return Finding{Warning, "disk", what, "etcd needs a local disk: put --data-dir on one"}
	default:
		return Finding{OK, "disk", what, ""}
	}
}

// checkInodes warns where kubelet would soon evict pods, at 5 % free. File systems that
// make inodes as they need them count none.
func (f *Facts) checkInodes() Finding {
	d := f.Disk
	if d.Inodes > 0 && d.FreeInodes < d.Inodes/20 {
		return Finding{Warning, "inodes", fmt.Sprintf("%d free of %d", d.FreeInodes, d.Inodes), "remove small files: kubelet evicts pods where inodes run out"}
	}
	return Finding{OK, "inodes", fmt.Sprintf("%d free", d.FreeInodes), ""}
}

func (f *Facts) checkOpenFiles() Finding {
	const least = 8192
	what := fmt.Sprintf("%d at once", f.OpenFiles)
	if f.OpenFiles < least {
		return Finding{Warning, "open files", what, "raise the limit: ulimit -Hn 1048576, or LimitNOFILE in a systemd unit"}
	}
	return Finding{OK, "open files", what, ""}
}

func size(bytes uint64) string {
	if bytes < gibi {
		return fmt.Sprintf("%d MiB", bytes/mebi)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/gibi)
}
