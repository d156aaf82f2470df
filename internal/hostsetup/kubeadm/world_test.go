package kubeadm_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/hostsetup/kubeadm"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
)

const version = "v1.36.3"

// kube stands for Kubernetes' program: it writes what kubeadm would, and down who called it. Where /run/hold is, it hangs;
// where /run/fail is, it fails.
const kube = `#!/bin/sh
name=$(basename "$0")
echo "$name $*" >>/run/calls
while [ "$name" = kubeadm ] && [ -e /run/hold ]; do sleep 0.1; done
if [ "$name" = kubeadm ] && [ -e /run/fail ]; then echo "error execution phase wait-control-plane: timed out" >&2; exit 1; fi
case "$name $1" in
"kubeadm init" | "kubeadm join")
	mkdir -p /etc/kubernetes/pki /etc/kubernetes/manifests /var/lib/kubelet
	cp /run/given/* /etc/kubernetes/
	cp /run/given/ca.crt /etc/kubernetes/pki/ca.crt
	echo kind: KubeletConfiguration >/var/lib/kubelet/config.yaml
	echo kind: Pod >/etc/kubernetes/manifests/kube-apiserver.yaml
	sleep 0.2
	;;
"kubeadm reset")
	rm -rf /etc/kubernetes/*.conf /etc/kubernetes/pki /etc/kubernetes/manifests
	;;
esac
`

// ctr stands for the container runtime's client: it knows the images that were imported.
const ctr = `#!/bin/sh
case "$*" in
*"images ls"*) echo "REF TYPE DIGEST SIZE PLATFORMS LABELS" && cat /run/images 2>/dev/null ;;
*"images import"*)
	cat >/run/import.tar
	tar -xOf /run/import.tar index.json | tr -d '\n' | tr '}' '\n' |
		sed -n 's/.*"digest": "\([^"]*\)".*"io.containerd.image.name": "\([^"]*\)".*/\2 type \1/p' >>/run/images
	;;
esac
exit 0
`

const systemctl = `#!/bin/sh
echo "systemctl $*" >>/run/calls
[ "$1" = is-active ] || exit 0
if [ -e "/etc/systemd/system/$2" ] && [ ! -e "/run/inactive-$2" ]; then echo active; else echo inactive && exit 3; fi
`

// fakeRelease is a release of programs that only pretend.
func fakeRelease(t *testing.T) *release.Catalogue {
	t.Helper()
	dir := t.TempDir()
	manifest := release.Manifest{Schema: release.Schema}
	write := func(path, content string) (string, int64) {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(content))
		return hex.EncodeToString(sum[:]), int64(len(content))
	}
	add := func(artifact release.Artifact, content string) {
		artifact.SHA256, artifact.Size = write(artifact.Path, content)
		artifact.Version = version
		manifest.Artifacts = append(manifest.Artifacts, artifact)
	}
	// Bytes that take a while to send.
	add(release.Artifact{Name: "kube", Kind: release.KindKube, Kubernetes: version, Path: "kube/" + version + "/kube"}, kube+"exit 0\n#"+strings.Repeat("x", 200<<10)+"\n")
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "runc", "loopback"} {
		add(release.Artifact{Name: name, Kind: release.KindBinary, Path: "bin/" + name}, "#!/bin/sh\n# "+name+"\n")
	}
	add(release.Artifact{Name: "ctr", Kind: release.KindBinary, Path: "bin/ctr"}, ctr)
	write("bin/prismnet", "#!/bin/sh\nexit 0\n")
	blob := func(content string) release.Blob {
		sum := sha256.Sum256([]byte(content))
		name := hex.EncodeToString(sum[:])
		write("images/blobs/sha256/"+name, content)
		return release.Blob{SHA256: name, Size: int64(len(content))}
	}
	for _, name := range []string{"pause", "coredns", "kube-proxy", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		head := blob("manifest of " + name)
		manifest.Artifacts = append(manifest.Artifacts, release.Artifact{
			Name: name, Kind: release.KindImage, Version: version, Kubernetes: version, Path: head.Path(), SHA256: head.SHA256, Size: head.Size,
			Refs: []string{"registry.k8s.io/" + name + ":" + version}, Blobs: []release.Blob{blob("layer of " + name + strings.Repeat("y", 20<<10))},
		})
	}
	content, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	write(release.ManifestName, string(content))
	catalogue, err := release.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return catalogue
}

// world is a host that answers SSH, whose systemd and Kubernetes only pretend.
type world struct {
	*sshtest.Host
	proxy        *sshtest.Proxy
	pool         *remote.Pool
	distribution *kubeadm.Distribution
	cluster      hostsetup.Cluster
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Setenv("container", "test") // its kernel's settings are not the test's to change
	w := &world{Host: sshtest.Start(t)}
	w.proxy = sshtest.NewProxy(t, w.Host)
	w.pool = remote.NewPool(remote.Config{
		DialTimeout: 5 * time.Second, HandshakeTimeout: 10 * time.Second, KeepAlive: 2 * time.Second, Backoff: 20 * time.Millisecond, Attempts: 3,
	})
	t.Cleanup(w.pool.Close)
	log := slog.New(slog.DiscardHandler)
	w.distribution = kubeadm.New(kubeadm.Config{
		Installer: hostsetup.New(hostsetup.Config{Release: fakeRelease(t), Clock: clock.RealClock{}, Log: log}),
		Clock:     clock.RealClock{}, Log: log, Patience: 20 * time.Second,
	})
	w.cluster = hostsetup.Cluster{
		Name: "dev", Version: version, Endpoint: "192.0.2.1:31234",
		Network: hostsetup.Network{PodCIDR: "192.168.0.0/16", ServiceCIDR: "10.96.0.0/12", Domain: "cluster.local", CNI: hostsetup.CNIPrismNET},
	}
	w.Do("mkdir -p /run/systemd/system /run/given && rm -rf /etc/kubernetes /var/lib/kubelet /var/lib/containerd /var/lib/etcd")
	w.lay("/usr/local/sbin/systemctl", systemctl)
	w.Do("chmod 755 /usr/local/sbin/systemctl")
	w.giveCredentials(t)
	return w
}

func (w *world) lay(path, content string) {
	w.Do("cat >" + path + " <<'END-OF-FILE'\n" + content + "\nEND-OF-FILE")
}

// giveCredentials has kubeadm make these.
func (w *world) giveCredentials(t *testing.T) {
	t.Helper()
	store := pki.New(t.TempDir(), clock.RealClock{})
	if _, err := store.Ensure([]pki.Leaf{{Name: pki.Admin, CA: pki.ClusterCA, CommonName: "a", Client: true}}); err != nil {
		t.Fatal(err)
	}
	read := func(path string) []byte {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	w.cluster.CA = read(store.CAPath(pki.ClusterCA))
	kubeconfig, err := bootstrap.Kubeconfig{
		Cluster: "dev", User: "admin", Server: "https://192.0.2.1:31234", CA: w.cluster.CA,
		Credentials: bootstrap.Credentials{Cert: read(store.CertPath(pki.Admin)), Key: read(store.KeyPath(pki.Admin))},
	}.Render()
	if err != nil {
		t.Fatal(err)
	}
	w.lay("/run/given/ca.crt", string(w.cluster.CA))
	for _, name := range []string{"admin.conf", "super-admin.conf", "kubelet.conf"} {
		w.lay("/run/given/"+name, string(kubeconfig))
	}
}

// host is the host as its user sees it, behind the proxy.
func (w *world) host(t *testing.T) hostsetup.Host {
	t.Helper()
	key, err := remote.ParseKey(w.Key)
	if err != nil {
		t.Fatal(err)
	}
	return hostsetup.Host{
		Client: w.pool.Client(remote.Host{Address: w.proxy.Address, Port: w.proxy.Port, Key: key, HostKey: w.HostKey}),
		Name:   "dev-0", Address: "10.42.0.7",
	}
}

// everything makes the host a control plane, from wherever it is.
func (w *world) everything(ctx context.Context, host hostsetup.Host) error {
	if err := w.distribution.Prepare(ctx, host, w.cluster, hostsetup.ControlPlane, nil); err != nil {
		return err
	}
	credentials, err := w.distribution.Init(ctx, host, w.cluster)
	if err != nil {
		return err
	}
	if string(credentials.CA) != string(w.cluster.CA) || len(credentials.AdminKey) == 0 || len(credentials.SuperAdminCert) == 0 {
		return fmt.Errorf("init returned other credentials than kubeadm made")
	}
	return nil
}

func newContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// assertSays checks that an error tells people everything that is listed.
func assertSays(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("there is no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}
