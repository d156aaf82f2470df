// Package datadir is the layout of a node's data directory: where each thing lives, who holds the directory now, and
// which version wrote it last. Names that must be unique on the host (cgroup, runtime directory) derive from the
// directory's path, so that several nodes can run side by side.
package datadir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Dir is a data directory.
type Dir struct {
	path string
	id   string
}

// New returns the data directory at an absolute path. Nothing is created.
func New(path string) Dir {
	path = filepath.Clean(path)
	sum := sha256.Sum256([]byte(path))
	return Dir{path: path, id: hex.EncodeToString(sum[:4])}
}

// ID is a short name for the directory that is unique on the host.
func (d Dir) ID() string { return d.id }

// Path is the directory itself, or a path below it.
func (d Dir) Path(elements ...string) string {
	return filepath.Join(append([]string{d.path}, elements...)...)
}

// Runtime is a path below the node's directory for sockets and mounts: on tmpfs, so a reboot empties it, and short,
// as a socket's path must be.
func (d Dir) Runtime(elements ...string) string {
	return filepath.Join(append([]string{"/run/k8shost", d.id}, elements...)...)
}

// Cgroup is the cgroup below which the node's pods run.
func (d Dir) Cgroup() string { return "k8shost-" + d.id }

// Places below the directory.
func (d Dir) Logs() string            { return d.Path("logs") }
func (d Dir) Run() string             { return d.Path("run") }
func (d Dir) Token() string           { return d.Path("server", "token") }
func (d Dir) TLS() string             { return d.Path("server", "tls") }
func (d Dir) Credentials() string     { return d.Path("server", "cred") }
func (d Dir) AdminKubeconfig() string { return d.Path("server", "cred", "admin.kubeconfig") }
func (d Dir) EtcdData() string        { return d.Path("server", "db", "etcd") }
func (d Dir) SQLite() string          { return d.Path("server", "db", "sqlite") }
func (d Dir) Snapshots() string       { return d.Path("server", "db", "snapshots") }
func (d Dir) Agent() string           { return d.Path("agent") }
func (d Dir) AgentPKI() string        { return d.Path("agent", "pki") }
func (d Dir) Images() string          { return d.Path("agent", "images") }
func (d Dir) CNIBin() string          { return d.Path("agent", "cni", "bin") }
func (d Dir) CNIConf() string         { return d.Path("agent", "cni", "net.d") }
func (d Dir) Network() string         { return d.Path("agent", "network") }
func (d Dir) Kubelet() string         { return d.Path("agent", "kubelet") }
func (d Dir) Containerd() string      { return d.Path("agent", "containerd") }

// JoinedCluster is what an agent keeps of the cluster that it has joined.
func (d Dir) JoinedCluster() string { return d.Path("agent", "cluster.json") }

// HasJoined tells whether an agent has joined a cluster, and is known there without a token.
func (d Dir) HasJoined() bool {
	_, err := os.Stat(d.JoinedCluster())
	return err == nil
}

func (d Dir) ContainerdSocket() string {
	return d.Runtime("containerd", "containerd.sock")
}

// Make creates the directories every node needs.
func (d Dir) Make() error {
	for _, dir := range []string{d.path, d.Logs(), d.Run(), d.Agent(), d.AgentPKI(), d.Images(), d.CNIBin(), d.CNIConf(), d.Runtime()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	return nil
}

// Lock takes the directory for this process until it ends. A directory that is taken is an error that names the
// holder.
func (d Dir) Lock() (release func(), err error) {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	file, err := os.OpenFile(d.Path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("data directory %s is in use by another k8shost%s: stop it first, or give this one a --data-dir of its own",
			d.path, d.holder())
	}
	return func() { _ = file.Close() }, nil
}

func (d Dir) holder() string {
	if pid, running := d.Launcher(); running {
		return fmt.Sprintf(" (process %d)", pid)
	}
	return ""
}
