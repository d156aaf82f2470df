package hostsetup

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"

	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

//go:embed unit
var units embed.FS

//go:embed script/import.sh
var importScript string

// containerdConfig is where the container runtime's configuration is.
const containerdConfig = Root + "/containerd.toml"

// containerd installs the container runtime and makes it run. It is started anew only where something has changed; pods
// go on meanwhile.
func (i *Installer) containerd(ctx context.Context, host Host, version string, found survey, laid []string) error {
	config, err := i.containerdConfig(version, found)
	if err != nil {
		return err
	}
	changed, err := i.LayFiles(ctx, host.Client, StepRuntime, map[string][]byte{
		containerdConfig: config, UnitDir + "/containerd.service": unitFile("containerd.service"),
	})
	if err != nil {
		return err
	}
	for _, program := range []string{"containerd", "runc", "containerd-shim-runc-v2"} {
		changed = changed || slices.Contains(laid, program)
	}
	return i.StartUnit(ctx, host.Client, StepRuntime, "containerd.service", changed)
}

// containerdConfig is the container runtime's configuration for what the host can do.
func (i *Installer) containerdConfig(version string, found survey) ([]byte, error) {
	pause, err := i.release.Image(release.ImagePause, version)
	if err != nil {
		return nil, err
	}
	parsed, err := template.New("containerd.toml").Parse(string(unitFile("containerd.toml")))
	if err != nil {
		return nil, fmt.Errorf("read containerd's configuration: %w", err)
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]any{
		"Sandbox": pause.Refs[0], "BinDir": BinDir, "CNIBinDir": CNIBinDir, "CNIConfDir": CNIConfDir,
		"RestrictOOMScoreAdj": !found.resource,
		// Inside of a container systemd is not the one who owns the cgroups.
		"SystemdCgroup": found.container == "" && found.cgroupV2,
	})
	if err != nil {
		return nil, fmt.Errorf("write containerd's configuration: %w", err)
	}
	return out.Bytes(), nil
}

func unitFile(name string) []byte {
	content, err := units.ReadFile("unit/" + name)
	if err != nil {
		panic(err) // it is a part of the program
	}
	return content
}

// kubelet installs the kubelet's unit. The kubelet starts once kubeadm has configured it.
func (i *Installer) kubelet(ctx context.Context, host Host) error {
	_, err := i.LayFiles(ctx, host.Client, StepKubelet, map[string][]byte{
		UnitDir + "/kubelet.service":                   unitFile("kubelet.service"),
		UnitDir + "/kubelet.service.d/10-kubeadm.conf": unitFile("10-kubeadm.conf"),
	})
	if err != nil {
		return err
	}
	_, err = i.script(ctx, host.Client, StepKubelet, `mkdir -p /etc/kubernetes/manifests && systemctl daemon-reload && systemctl enable --quiet kubelet.service`, nil)
	return err
}

// LayFiles lays small public files, and tells whether any has changed.
func (i *Installer) LayFiles(ctx context.Context, host *remote.Client, step string, files map[string][]byte) (changed bool, err error) {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fresh, err := host.Upload(ctx, remote.Bytes(step, name, 0o644, files[name]))
		if err != nil {
			return changed, err
		}
		changed = changed || fresh
	}
	return changed, nil
}

// StartUnit makes a unit run, now and at every start of the host; anew where it shall.
func (i *Installer) StartUnit(ctx context.Context, host *remote.Client, step, unit string, anew bool) error {
	verb := "start"
	if anew {
		verb = "restart"
	}
	_, err := i.script(ctx, host, step, startScript, nil, unit, verb)
	return err
}

//go:embed script/start.sh
var startScript string

// nodeImages are the images that every node runs, and nobody can pull where there is no internet; controlPlaneImages
// are those that only a control plane runs.
var (
	nodeImages         = []string{release.ImagePause, release.ImageCoreDNS, "kube-proxy"}
	controlPlaneImages = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"}
)

// images gives the container runtime those images of a version that it lacks.
func (i *Installer) images(ctx context.Context, host Host, version string, role Role, progress func(string)) error {
	names := slices.Clone(nodeImages)
	if role == ControlPlane {
		names = append(names, controlPlaneImages...)
	}
	listing, err := i.script(ctx, host.Client, StepImages, "ctr --namespace k8s.io images ls", nil)
	if err != nil {
		return err
	}
	have := imageDigests(listing)
	var missing []release.Artifact
	for _, name := range names {
		image, err := i.release.Image(name, version)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(image.Refs, func(ref string) bool { return have[ref] != image.SHA256 }) {
			missing = append(missing, image)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return i.importImages(ctx, host, missing, progress)
}

// imageDigests reads what ctr says: the digest of each image, by its name.
func imageDigests(listing string) map[string]string {
	digests := map[string]string{}
	for line := range strings.Lines(listing) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		if digest, ok := strings.CutPrefix(fields[2], "sha256:"); ok {
			digests[fields[0]] = digest
		}
	}
	return digests
}

func (i *Installer) importImages(ctx context.Context, host Host, images []release.Artifact, progress func(string)) error {
	pieces := i.imagePieces(images)
	blobs := make([]string, len(pieces))
	for n, piece := range pieces {
		blobs[n] = "blobs/sha256/" + piece.sha256
	}
	if _, err := i.lay(ctx, host.Client, StepImages, pieces, progress); err != nil {
		return err
	}
	progress(fmt.Sprintf("import %d images", len(images)))
	index, err := release.Index(images)
	if err != nil {
		return err
	}
	_, err = i.script(ctx, host.Client, StepImages, importScript, index, append([]string{path.Join(ReleaseDir, release.ImagesDir)}, blobs...)...)
	return err
}
