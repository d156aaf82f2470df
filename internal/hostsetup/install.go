package hostsetup

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// Steps, as errors name them.
const (
	StepPreflight = "preflight"
	StepPrograms  = "programs"
	StepSystem    = "system settings"
	StepRuntime   = "container runtime"
	StepImages    = "images"
	StepKubelet   = "kubelet"
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

// Prerequisites looks at the host, and makes it one that kubeadm can work on: modules, sysctls, swap, programs, container
// runtime, images and the kubelet's unit. Nothing is changed on a host that will not do.
func (i *Installer) Prerequisites(ctx context.Context, host Host, version string, role Role, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	found, err := i.ready(ctx, host, version, role, progress)
	if err != nil {
		return err
	}
	laid, err := i.LayPrograms(ctx, host, version, runtimePrograms, progress)
	if err != nil {
		return err
	}
	progress("start the container runtime")
	if err := i.containerd(ctx, host, version, found, laid); err != nil {
		return err
	}
	if err := i.images(ctx, host, version, role, progress); err != nil {
		return err
	}
	return i.kubelet(ctx, host)
}

// mark says on the host that it is one of ours from now on, before anything else is changed.
func (i *Installer) mark(ctx context.Context, host *remote.Client, version string) error {
	_, err := host.Upload(ctx, remote.Bytes(StepSystem, MarkFile, 0o644, []byte(version+"\n")))
	return err
}

// script runs a script of this package or of one below.
func (i *Installer) script(ctx context.Context, host *remote.Client, step, script string, stdin []byte, args ...string) (string, error) {
	result, err := host.RunIdempotent(ctx, remote.Command{
		Step: step, Args: append([]string{"sh", "-c", script, "sh"}, args...), Stdin: stdin, Env: map[string]string{"PATH": Path},
		Output: func(line remote.Line) { i.log.Debug(line.Text, "host", host.Host().String(), "step", step) },
	})
	if err != nil {
		return result.Stdout, err
	}
	return result.Stdout, nil
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
