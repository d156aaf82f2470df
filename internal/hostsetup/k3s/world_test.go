package k3s

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
)

const version = "v1.36.3"

// launcher stands for k8shost: it answers what it is asked, and writes down who called it.
const launcher = `#!/bin/sh
echo "k8shost $*" >>/run/calls
case "$1 $2" in
"check "*) cat /run/judgement 2>/dev/null || echo '{"findings":[]}' ;;
"etcd-member remove") [ ! -e /run/minority ] || { echo "k8shost: quorum would be lost" >&2; exit 3; } ;;
"etcd-member ls") echo '[{"name":"dev-1-00000000","healthy":true}]' ;;
"kubectl "*) printf ok ;;
"down "*) rm -rf /var/lib/k8shost ;;
esac
exit 0
`

// systemctl stands for systemd: what is started runs, unless /run/broken is there.
const systemctl = `#!/bin/sh
echo "systemctl $*" >>/run/calls
for unit; do :; done
case $1 in
start | restart) [ ! -e /run/broken ] || exit $([ "$1" = restart ]; echo $?); echo active >"/run/state-$unit" ;;
stop) rm -f "/run/state-$unit" ;;
disable) rm -f "/run/state-$unit" ;;
show) [ ! -e /run/broken ] || echo x >>/run/broken; wc -l </run/broken 2>/dev/null || echo 0 ;;
is-active) case "$*" in *--quiet*) ;; *) cat "/run/state-$unit" 2>/dev/null || echo inactive ;; esac; [ -e "/run/state-$unit" ] || exit 3 ;;
esac
exit 0
`

// fakeRelease is a release of programs that only pretend.
func fakeRelease(t *testing.T) *release.Catalogue {
	t.Helper()
	dir := t.TempDir()
	manifest := release.Manifest{Schema: release.Schema}
	write := func(path, content string) string {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		return fileHash([]byte(content))
	}
	add := func(a release.Artifact, content string) {
		a.SHA256, a.Size, a.Version = write(a.Path, content), int64(len(content)), version
		manifest.Artifacts = append(manifest.Artifacts, a)
	}
	// Bytes that take a while to send.
	add(release.Artifact{Name: "kube", Kind: release.KindKube, Kubernetes: version, Path: "kube/" + version + "/kube"}, strings.Repeat("x", 200<<10))
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "loopback", "etcd", "etcdutl", "kine"} {
		add(release.Artifact{Name: name, Kind: release.KindBinary, Path: "bin/" + name}, "#!/bin/sh\n# "+name+"\n")
	}
	for _, name := range []string{release.ImagePause, release.ImageCoreDNS} {
		layer := "layer of " + name + strings.Repeat("y", 20<<10)
		blob := release.Blob{SHA256: fileHash([]byte(layer)), Size: int64(len(layer))}
		write(blob.Path(), layer)
		head := release.Blob{SHA256: fileHash([]byte(name))}
		add(release.Artifact{Name: name, Kind: release.KindImage, Kubernetes: version, Path: head.Path(), Refs: []string{"example.com/" + name + ":1"}, Blobs: []release.Blob{blob}}, name)
	}
	write("bin/k8shost", launcher)
	write("bin/prismnet", "#!/bin/sh\nexit 0\n")
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
	distribution *Distribution
	cluster      hostsetup.Cluster
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Setenv("container", "test") // its kernel's settings are not the test's to change
	w := &world{Host: sshtest.Start(t), cluster: exampleCluster(true)}
	w.proxy = sshtest.NewProxy(t, w.Host)
	w.pool = remote.NewPool(remote.Config{
		DialTimeout: 10 * time.Second, HandshakeTimeout: 20 * time.Second, KeepAlive: 5 * time.Second, Backoff: 20 * time.Millisecond, Attempts: 3,
	})
	t.Cleanup(w.pool.Close)
	installer := hostsetup.New(hostsetup.Config{Release: fakeRelease(t), Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)})
	var err error
	if w.distribution, err = New(Config{Installer: installer}); err != nil {
		t.Fatal(err)
	}
	w.Do("mkdir -p /run/systemd/system && rm -rf /etc/kubernetes /var/lib/kubelet /var/lib/containerd /var/lib/etcd")
	w.lay("/usr/local/sbin/systemctl", systemctl)
	w.Do("chmod 755 /usr/local/sbin/systemctl")
	w.reset(t)
	return w
}

func (w *world) lay(path, content string) {
	w.Do("mkdir -p $(dirname " + path + ") && cat >" + path + " <<'END-OF-FILE'\n" + content + "\nEND-OF-FILE")
}

// reset makes the host one that nobody has touched, but for what the launcher would make.
func (w *world) reset(t *testing.T) {
	t.Helper()
	w.Do("rm -rf /etc/k8shost /var/lib/k8shost /run/k8shost /usr/local/lib/plasmacloud /var/lib/plasmacloud /etc/systemd/system/k8shost-* /run/state-* /run/calls /run/broken /usr/local/bin/k8shost; touch /run/calls")
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:6443", CertificateAuthorityData: []byte("ca")}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte("cert"), ClientKeyData: []byte("key")}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	content, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	w.lay(kubeconfigFile, string(content))
}

// host is the host as its user sees it, behind the proxy.
func (w *world) host(t *testing.T) hostsetup.Host {
	t.Helper()
	key, err := remote.ParseKey(w.Key)
	if err != nil {
		t.Fatal(err)
	}
	host := exampleHost()
	host.Client = w.pool.Client(remote.Host{Address: w.proxy.Address, Port: w.proxy.Port, Key: key, HostKey: w.HostKey})
	return host
}

// everything makes the host a server, from wherever it is.
func (w *world) everything(ctx context.Context, host hostsetup.Host) error {
	if err := w.distribution.Prepare(ctx, host, w.cluster, hostsetup.ControlPlane, nil); err != nil {
		return err
	}
	_, err := w.distribution.Init(ctx, host, w.cluster)
	return err
}

// called is how often something was called.
func (w *world) called(words string) int {
	return strings.Count(w.Do("cat /run/calls"), words)
}

func newContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
