// Package install brings the platform onto a management cluster: an embedded one, which it starts, or one that exists.
// Everything it does may be repeated: what is missing is made, what is broken is mended, what is right stays.
package install

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/platform"
	"plasmacloud.io/plasmacloud/internal/release"
)

//go:embed manifests/*.yaml
var manifests embed.FS

const (
	// Namespace is the platform's own.
	Namespace = "plasmacloud-system"
	// manager is the name under which the installer sets fields.
	manager = "plasmacloud"
	// Image is what the daemon's image is called; the installer brings it along.
	Image = "plasmacloud.io/cloudd:latest"
	// imageArchive is where the release has it.
	imageArchive = "cloudd.tar"
)

// Installer installs the platform from a release.
type Installer struct {
	// ReleaseDir is where the release is; it is looked for where it is empty.
	ReleaseDir string
}

var _ platform.Installer = (*Installer)(nil)

// installation is one run.
type installation struct {
	release  *release.Catalogue
	target   platform.Target
	progress platform.Progress
	// files is where the platform's own files are: keys and certificates, the administrator's password.
	files   string
	rest    *rest.Config
	dynamic dynamic.Interface
	client  client.Client
	kube    kubernetes.Interface
	// iamAddress is the identity service's in the cluster; known once the daemon is installed.
	iamAddress netip.Addr
}

// embedded says whether the management cluster is ours to start.
func (in *installation) embedded() bool { return in.target.Kubeconfig == "" }

// Up implements platform.Installer.
func (i *Installer) Up(ctx context.Context, options platform.UpOptions, progress platform.Progress) (*platform.Installation, error) {
	in, err := i.open(options.Target, progress)
	if err != nil {
		return nil, err
	}
	if !in.embedded() {
		in.files = options.FilesDir
	}
	if in.embedded() {
		progress.Step("start the management cluster")
		if err := in.startEmbedded(ctx); err != nil {
			return nil, err
		}
	}
	if err := in.connect(); err != nil {
		return nil, err
	}
	imported := make(chan error, 1)
	go func() { imported <- in.bringImages(ctx) }() // it takes its time, and the rest need not wait for it
	for _, step := range []struct {
		name string
		do   func(context.Context, platform.UpOptions) error
	}{
		{"install the API", in.applyCRDs},
		{"install roles", in.applyRoles},
		{"share the platform's authority", in.shareAuthority},
		{"install the daemon", in.applyDaemon},
		{"wait for the daemon", in.awaitDaemon},
		{"switch admission on", in.applyAdmission},
		{"make the default project", in.applyDefaults},
		{"make the administrator", in.applyAdministrator},
		{"import the images of hosted clusters", func(context.Context, platform.UpOptions) error { return <-imported }},
	} {
		progress.Step(step.name)
		if err := step.do(ctx, options); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	progress.Step("log in")
	made, err := in.session(ctx)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	return made, nil
}

// Down implements platform.Installer.
func (i *Installer) Down(ctx context.Context, options platform.DownOptions, progress platform.Progress) error {
	in, err := i.open(options.Target, progress)
	if err != nil {
		return err
	}
	if options.Kubeconfig == "" {
		progress.Step("stop the management cluster")
		return in.stopEmbedded(ctx, options.Purge)
	}
	if err := in.connect(); err != nil {
		return err
	}
	if !options.Purge {
		progress.Step("remove the daemon")
		return in.removeDaemon(ctx)
	}
	return in.purge(ctx)
}

func (i *Installer) open(target platform.Target, progress platform.Progress) (*installation, error) {
	dir, err := release.Locate(i.ReleaseDir)
	if err != nil {
		return nil, err
	}
	catalogue, err := release.Open(dir)
	if err != nil {
		return nil, err
	}
	if target.DataDir, err = filepath.Abs(target.DataDir); err != nil {
		return nil, err
	}
	return &installation{release: catalogue, target: target, progress: progress, files: filepath.Join(target.DataDir, platformDir)}, nil
}

// kubeconfig is the administrator's access to the management cluster.
func (in *installation) kubeconfig() string {
	if in.target.Kubeconfig != "" {
		return in.target.Kubeconfig
	}
	return filepath.Join(in.target.DataDir, "server", "cred", "admin.kubeconfig")
}

func (in *installation) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", in.kubeconfig())
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no management cluster in %s: %w", in.target.DataDir, err)
	}
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 100, 200
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	in.rest = config
	if in.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	if in.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	in.client, err = client.New(config, client.Options{Scheme: scheme})
	return err
}
