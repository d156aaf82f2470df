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
)

//go:embed unit
var units embed.FS

var (
	//go:embed script/settle.sh
	settleScript string
	//go:embed script/import.sh
	importScript string
)

// containerdConfig is where the container runtime's configuration is.
const containerdConfig = Root + "/containerd.toml"

// settle makes the container runtime run, and gives it those images that it lacks. It is started anew only where something
// has changed; pods go on meanwhile.
func (i *Installer) settle(ctx context.Context, host Host, wanted Wanted, links []string, anew bool, progress func(string)) error {
	verb := "start"
	if anew {
		verb = "restart"
	}
	listing, err := i.script(ctx, host.Client, StepRuntime, linkScript+settleScript, nil, append(links, verb)...)
	if err != nil {
		return err
	}
	missing, err := i.missing(wanted, imageDigests(listing))
	if err != nil || len(missing) == 0 {
		return err
	}
	return i.importImages(ctx, host, missing, progress)
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

// nodeImages are the images that every node runs, and nobody can pull where there is no internet; controlPlaneImages
// are those that only a control plane runs.
var (
	nodeImages         = []string{release.ImagePause, release.ImageCoreDNS, "kube-proxy"}
	controlPlaneImages = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"}
)

// missing are the images of a version that a host needs, and does not have.
func (i *Installer) missing(wanted Wanted, have map[string]string) ([]release.Artifact, error) {
	names := slices.Clone(nodeImages)
	if wanted.Role == ControlPlane {
		names = append(names, controlPlaneImages...)
	}
	var missing []release.Artifact
	for _, name := range names {
		image, err := i.release.Image(name, wanted.Version)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(image.Refs, func(ref string) bool { return have[ref] != image.SHA256 }) {
			missing = append(missing, image)
		}
	}
	return missing, nil
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
