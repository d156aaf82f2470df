package distro

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/compile"
	"plasmacloud.io/plasmacloud/internal/distro/module"
	"plasmacloud.io/plasmacloud/internal/release"
)

// runtimeModule is a module under distro/runtime: programs of one upstream project, which every Kubernetes version
// shares.
type runtimeModule struct {
	name     string // of the folder and of the step
	upstream string // the module whose version is the programs' version
	programs []compile.Program
	tags     []string
	cgo      bool
	cflags   string
	library  string
	stamps   func(version string) map[string]string // nil where upstream carries its version in its source
}

// runtimeModules is how upstream builds these programs, in the order of how long they take.
var runtimeModules = []runtimeModule{
	{
		name: "etcd", upstream: "go.etcd.io/etcd/server/v3",
		programs: []compile.Program{{Name: "etcd", Package: "go.etcd.io/etcd/server/v3"}, {Name: "etcdutl", Package: "go.etcd.io/etcd/etcdutl/v3"}},
	},
	{
		name: "containerd", upstream: "github.com/containerd/containerd/v2",
		programs: []compile.Program{
			{Name: "containerd", Package: "github.com/containerd/containerd/v2/cmd/containerd"},
			{Name: "containerd-shim-runc-v2", Package: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
			{Name: "ctr", Package: "github.com/containerd/containerd/v2/cmd/ctr"},
		},
		tags: []string{"urfave_cli_no_docs", "static_build"},
		stamps: func(version string) map[string]string {
			return map[string]string{"github.com/containerd/containerd/v2/version.Version": version}
		},
	},
	{
		name: "runc", upstream: "github.com/opencontainers/runc",
		programs: []compile.Program{{Name: "runc", Package: "github.com/opencontainers/runc"}},
		tags:     []string{"seccomp", "urfave_cli_no_docs"}, cgo: true, library: "libseccomp",
	},
	{
		name: "cni", upstream: "github.com/containernetworking/plugins",
		programs: []compile.Program{{Name: "loopback", Package: "github.com/containernetworking/plugins/plugins/main/loopback"}},
		stamps: func(version string) map[string]string {
			return map[string]string{"github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion": version}
		},
	},
	{
		name: "coredns", upstream: "github.com/coredns/coredns",
		programs: []compile.Program{{Name: "coredns", Package: "."}},
	},
	{
		name: "kine", upstream: "github.com/k3s-io/kine",
		programs: []compile.Program{{Name: "kine", Package: "github.com/k3s-io/kine"}},
		cgo:      true, cflags: "-DSQLITE_USE_ALLOCA=1",
		stamps: func(version string) map[string]string {
			return map[string]string{"github.com/k3s-io/kine/pkg/version.Version": version, "github.com/k3s-io/kine/pkg/version.GitCommit": version}
		},
	},
	{
		name: "konnectivity", upstream: "sigs.k8s.io/apiserver-network-proxy",
		programs: []compile.Program{
			{Name: "proxy-server", Package: "sigs.k8s.io/apiserver-network-proxy/cmd/server"},
			{Name: "proxy-agent", Package: "sigs.k8s.io/apiserver-network-proxy/cmd/agent"},
		},
	},
}

// binaries plans what is compiled: the newest Kubernetes first, then what all share, then the older ones.
func (p *planner) binaries(ctx context.Context) error {
	for i, minor := range p.minors {
		download, err := module.Fetch(ctx, module.Kubernetes, minor.Version)
		if err != nil {
			return err
		}
		if err := p.kube(minor, download); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		if err := p.pause(download.Dir); err != nil {
			return err
		}
		for _, m := range runtimeModules {
			if err := p.runtime(m); err != nil {
				return err
			}
		}
	}
	return nil
}

func kubeStep(version string) string { return "kube-" + version }

// kube plans the multi-call binary of one minor, stamped as upstream stamps its own.
func (p *planner) kube(minor module.Minor, download module.Download) error {
	published, err := download.Time()
	if err != nil {
		return err
	}
	stamps := make(map[string]string)
	for _, pkg := range []string{"k8s.io/client-go/pkg/version", "k8s.io/component-base/version"} {
		stamps[pkg+".gitVersion"] = minor.Version
		stamps[pkg+".gitMajor"] = strings.TrimPrefix(semver.Major(minor.Version), "v")
		stamps[pkg+".gitMinor"] = strings.TrimPrefix(minor.Name, semver.Major(minor.Name)+".")
		stamps[pkg+".gitCommit"] = "" // the module proxy does not say
		stamps[pkg+".gitTreeState"] = "clean"
		stamps[pkg+".buildDate"] = published.Format(time.RFC3339)
	}
	build := compile.Go{Dir: minor.Dir, Programs: []compile.Program{{Name: "kube", Package: "."}}, Stamps: stamps}
	p.add(&step{
		name: kubeStep(minor.Version), title: "Kubernetes " + minor.Version, lane: laneCompile,
		recipe: func(k *cache.Key) { build.Recipe(k, p.toolchain) },
		build:  func(ctx context.Context, _ inputs, dir string) error { return build.Run(ctx, dir) },
		artifacts: func(e *cache.Entry) ([]placed, error) {
			return place(e, "kube", release.Artifact{
				Name: "kube", Kind: release.KindKube, Version: minor.Version, Kubernetes: minor.Version,
				Path: filepath.Join("kube", minor.Version, "kube"),
			})
		},
	})
	return nil
}

// runtime plans the programs of one module under distro/runtime.
func (p *planner) runtime(m runtimeModule) error {
	dir := filepath.Join(p.runtimeDir, m.name)
	version, err := module.Required(filepath.Join(dir, "go.mod"), m.upstream)
	if err != nil {
		return err
	}
	build := compile.Go{Dir: dir, Programs: m.programs, Tags: m.tags, Cgo: m.cgo, CFlags: m.cflags, Library: m.library}
	if m.stamps != nil {
		build.Stamps = m.stamps(version)
	}
	names := make([]string, 0, len(m.programs))
	for _, program := range m.programs {
		names = append(names, program.Name)
	}
	p.versions[m.name] = version
	p.add(&step{
		name: m.name, title: m.name + " " + version, lane: laneCompile,
		recipe:    func(k *cache.Key) { build.Recipe(k, p.toolchain) },
		build:     func(ctx context.Context, _ inputs, dir string) error { return build.Run(ctx, dir) },
		artifacts: binaryArtifacts(version, names...),
	})
	return nil
}

var pauseTag = regexp.MustCompile(`(?m)^TAG \?= (\S+)$`)

// pause plans the one program that upstream writes in C, from the newest minor's source.
func (p *planner) pause(kubernetesDir string) error {
	dir := filepath.Join(kubernetesDir, "build", "pause")
	makefile, err := os.ReadFile(filepath.Join(dir, "Makefile"))
	if err != nil {
		return fmt.Errorf("find pause's version: %w", err)
	}
	tag := pauseTag.FindSubmatch(makefile)
	if tag == nil {
		return fmt.Errorf("find pause's version: no TAG in %s", filepath.Join(dir, "Makefile"))
	}
	version := "v" + string(tag[1])
	build := compile.C{Source: filepath.Join(dir, "linux", "pause.c"), Name: "pause", Defines: map[string]string{"VERSION": version}}
	p.versions["pause"] = version
	p.add(&step{
		name: "pause", title: "pause " + version, lane: laneCompile,
		recipe:    func(k *cache.Key) { build.Recipe(k, p.toolchain) },
		build:     func(ctx context.Context, _ inputs, dir string) error { return build.Run(ctx, dir) },
		artifacts: binaryArtifacts(version, "pause"),
	})
	return nil
}

// binaryArtifacts places programs in the release's bin folder.
func binaryArtifacts(version string, names ...string) func(*cache.Entry) ([]placed, error) {
	return func(e *cache.Entry) ([]placed, error) {
		var all []placed
		for _, name := range names {
			one, err := place(e, name, release.Artifact{
				Name: name, Kind: release.KindBinary, Version: version, Path: filepath.Join("bin", name),
			})
			if err != nil {
				return nil, err
			}
			all = append(all, one...)
		}
		return all, nil
	}
}

// place completes an artifact with what the cache knows of its file.
func place(e *cache.Entry, name string, artifact release.Artifact) ([]placed, error) {
	file, ok := e.File(name)
	if !ok {
		return nil, fmt.Errorf("find %s in cache entry %s: not there", name, e.Name)
	}
	artifact.Size, artifact.SHA256 = file.Size, file.SHA256
	return []placed{{Artifact: artifact, source: e.Path(name)}}, nil
}
