package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/release"
)

// hostedImages are what hosted clusters consist of, by the names that the catalogue has for them. Those that machines bring
// along themselves are named, too, but need not be on the management cluster.
var hostedImages = []struct {
	name     string
	machines bool
}{
	{name: "kube-apiserver"}, {name: "kube-controller-manager"}, {name: "kube-scheduler"},
	{name: "etcd"}, {name: release.ImageKonnectivityServer}, {name: release.ImageNode}, {name: release.ImageToolbox},
	{name: release.ImageCoreDNS, machines: true}, {name: release.ImageKonnectivityAgent, machines: true},
}

// images names the images of hosted clusters by Kubernetes version.
func (in *installation) images() (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	for _, version := range in.release.Versions() {
		all[version] = map[string]string{}
		for _, wanted := range hostedImages {
			image, err := in.release.Image(wanted.name, version)
			if err != nil {
				return nil, err
			}
			all[version][wanted.name] = image.Refs[0]
		}
	}
	return all, nil
}

// bringImages brings the images to where they run. The nodes of a cluster that is not ours get them from elsewhere.
func (in *installation) bringImages(ctx context.Context) error {
	if !in.embedded() {
		return nil
	}
	return in.importImages(ctx)
}

// importImages gives the embedded cluster's container runtime what hosted clusters run on. What was imported once, and is
// there still, is not imported again; the memory of it lies beside the images, and goes with them.
func (in *installation) importImages(ctx context.Context) error {
	images, err := in.hostedImages()
	if err != nil {
		return err
	}
	var contents []string
	for _, image := range images {
		contents = append(contents, image.SHA256+" "+strings.Join(image.Refs, " "))
	}
	slices.Sort(contents)
	sum := sha256.Sum256([]byte(strings.Join(contents, "\n")))
	state := hex.EncodeToString(sum[:])
	record := filepath.Join(datadir.New(in.target.DataDir).Containerd(), "platform-images")
	done, err := os.ReadFile(record)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if string(done) == state {
		if complete, err := in.haveAll(ctx, release.Refs(images...)); err != nil || complete {
			return err
		}
	}
	reader, writer := io.Pipe()
	defer func() { _ = reader.Close() }()
	go func() { writer.CloseWithError(in.release.Export(writer, release.Refs(images...)...)) }()
	if err := in.importArchive(ctx, reader); err != nil {
		return fmt.Errorf("import the images of hosted clusters: %w", err)
	}
	return atomicfile.Write(record, []byte(state), 0o600)
}

// haveAll tells whether the container runtime has all of the images.
func (in *installation) haveAll(ctx context.Context, refs []string) (bool, error) {
	cmd, err := in.ctr(ctx, "images", "list", "--quiet")
	if err != nil {
		return false, err
	}
	listed, err := cmd.Output()
	if err != nil {
		return false, fmt.Errorf("list images: %w", err)
	}
	have := strings.Fields(string(listed))
	return !slices.ContainsFunc(refs, func(ref string) bool { return !slices.Contains(have, ref) }), nil
}

func (in *installation) importArchive(ctx context.Context, archive io.Reader) error {
	cmd, err := in.ctr(ctx, "images", "import", "--local", "--label", release.PinnedImage, "-")
	if err != nil {
		return err
	}
	cmd.Stdin = archive
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// ctr is a command to the embedded cluster's container runtime.
func (in *installation) ctr(ctx context.Context, args ...string) (*exec.Cmd, error) {
	ctr, err := in.release.Binary("ctr")
	if err != nil {
		return nil, err
	}
	address := datadir.New(in.target.DataDir).ContainerdSocket()
	return exec.CommandContext(ctx, ctr, append([]string{"--address", address, "--namespace", "k8s.io"}, args...)...), nil
}

func (in *installation) hostedImages() ([]release.Artifact, error) {
	byDigest := map[string]release.Artifact{}
	for _, version := range in.release.Versions() {
		for _, wanted := range hostedImages {
			if wanted.machines {
				continue
			}
			image, err := in.release.Image(wanted.name, version)
			if err != nil {
				return nil, err
			}
			byDigest[image.Refs[0]] = image
		}
	}
	return slices.Collect(maps.Values(byDigest)), nil
}
