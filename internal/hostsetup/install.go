package hostsetup

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"sync"

	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// Steps, as errors name them.
const (
	StepPreflight = "preflight"
	StepPrograms  = "programs"
	StepServices  = "services"
	StepSystem    = "system settings"
	StepRuntime   = "container runtime"
	StepImages    = "images"
)

// Where things are on a host. All is below directories that are ours alone, but for the units, which have the names that
// everybody looks for.
const (
	// Root is what is laid and does not change while the host runs; StateDir is what is written there.
	Root     = "/usr/local/lib/plasmacloud"
	StateDir = "/var/lib/plasmacloud"

	// ReleaseDir is a part of a release, as the release itself is laid out.
	ReleaseDir = Root + "/release"
	// BinDir has the programs, by their names.
	BinDir = Root + "/bin"
	// UnitDir is where units are.
	UnitDir = "/etc/systemd/system"
	// CNIBinDir and CNIConfDir are where a container runtime looks for pod networks.
	CNIBinDir  = "/opt/cni/bin"
	CNIConfDir = "/etc/cni/net.d"

	// Socket is the container runtime's.
	Socket = "/run/containerd/containerd.sock"

	// Path finds our programs first.
	Path = BinDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

	// MarkFile says that the host was set up by us, and for which version.
	MarkFile = StateDir + "/hostsetup"
)

// Config is what an Installer works with.
type Config struct {
	Release *release.Catalogue
	Clock   clock.PassiveClock
	Log     *slog.Logger
}

// Installer installs what hosts need out of a release. It may be used for many hosts at the same time.
type Installer struct {
	release *release.Catalogue
	clock   clock.PassiveClock
	log     *slog.Logger

	mu   sync.Mutex
	sums map[string]checksum // of local files that the release has no checksum of
}

// New returns an installer.
func New(config Config) *Installer {
	return &Installer{release: config.Release, clock: config.Clock, log: config.Log, sums: map[string]checksum{}}
}

// Release is what it installs from.
func (i *Installer) Release() *release.Catalogue { return i.release }

// runtimePrograms are what a node with a container runtime of its own has, besides Kubernetes' own programs.
var runtimePrograms = []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "loopback"}

// Wanted is what a host is to have.
type Wanted struct {
	// Version of Kubernetes, and what the host is to be.
	Version string
	Role    Role
	// Programs of the project's own, and Files that everybody may read, by their paths, besides what all hosts have.
	Programs []string
	Files    map[string][]byte
}

// Prerequisites looks at the host, and makes it one that kubeadm can work on: modules, sysctls, swap, programs, container
// runtime, images and the kubelet's unit. Nothing is changed on a host that will not do.
func (i *Installer) Prerequisites(ctx context.Context, host Host, wanted Wanted, progress func(string)) error {
	found, err := i.ready(ctx, host, wanted.Version, wanted.Role, progress)
	if err != nil {
		return err
	}
	pieces, manifest, err := i.programs(wanted.Version, slices.Concat(runtimePrograms, wanted.Programs))
	if err != nil {
		return err
	}
	laid, err := i.lay(ctx, host.Client, StepPrograms, pieces, progress)
	if err != nil {
		return err
	}
	progress("install services")
	files, err := i.files(wanted, manifest, found)
	if err != nil {
		return err
	}
	changed, err := i.layFiles(ctx, host.Client, StepServices, files)
	if err != nil {
		return err
	}
	anew := slices.ContainsFunc([]string{"containerd", "runc", "containerd-shim-runc-v2", containerdConfig, UnitDir + "/containerd.service"},
		func(name string) bool { return slices.Contains(laid, name) || slices.Contains(changed, name) })
	progress("start the container runtime")
	return i.settle(ctx, host, wanted, links(pieces), anew, progress)
}

// files are the small ones that a host gets, by their paths.
func (i *Installer) files(wanted Wanted, manifest *release.Manifest, found survey) (map[string][]byte, error) {
	listed, err := manifestFile(manifest)
	if err != nil {
		return nil, err
	}
	config, err := i.containerdConfig(wanted.Version, found)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		path.Join(ReleaseDir, release.ManifestName): listed, containerdConfig: config,
		UnitDir + "/containerd.service": unitFile("containerd.service"), UnitDir + "/kubelet.service": unitFile("kubelet.service"),
		UnitDir + "/kubelet.service.d/10-kubeadm.conf": unitFile("10-kubeadm.conf"),
	}
	maps.Copy(files, wanted.Files)
	return files, nil
}

// script runs a script of this package or of one below.
func (i *Installer) script(ctx context.Context, host *remote.Client, step, script string, stdin []byte, args ...string) (string, error) {
	result, err := host.RunIdempotent(ctx, remote.Command{
		Step: step, Args: append([]string{"sh", "-c", script, "sh"}, args...), Stdin: stdin, Env: map[string]string{"PATH": Path},
		Output: func(line remote.Line) {
			i.log.Debug("a host says", "line", line.Text, "host", host.Host().String(), "step", step)
		},
	})
	return result.Stdout, DiskFull(host, step, err)
}

// percent is the progress of something large, in a few steps.
func percent(progress func(string), what string) func(done, size int64) {
	last := int64(-1)
	return func(done, size int64) {
		if size == 0 {
			return
		}
		if step := done * 4 / size; step != last {
			last = step
			progress(fmt.Sprintf("upload %s (%d of %d MiB)", what, done>>20, size>>20))
		}
	}
}
