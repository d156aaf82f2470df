//go:build bench

package k8shost

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"plasmacloud.io/plasmacloud/internal/release"
)

// serverBinaries are the files of the release that a single server with etcd uses.
var serverBinaries = []string{"k8shost", "prismnet", "etcd", "etcdutl", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "loopback"}

// binarySizes is the size of the programs that a server uses, Kubernetes itself first.
func binarySizes(catalogue *release.Catalogue, version string) (map[string]int64, error) {
	kube, err := catalogue.Kube(version)
	if err != nil {
		return nil, err
	}
	paths := []string{kube}
	for _, name := range serverBinaries {
		path, err := catalogue.Binary(name)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	sizes := map[string]int64{}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		sizes[filepath.Base(path)] = info.Size()
	}
	return sizes, nil
}

// diskUse is what a directory takes on its own file system, as du(1) counts it.
func diskUse(dir string) (int64, error) {
	var total int64
	var device uint64
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // it was there a moment ago
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // it was there a moment ago
		}
		stat := info.Sys().(*syscall.Stat_t)
		if path == dir {
			device = stat.Dev
		}
		if stat.Dev != device {
			return fs.SkipDir
		}
		total += stat.Blocks * 512
		return nil
	})
	return total, err
}
