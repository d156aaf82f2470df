package distro

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/debian"
	"plasmacloud.io/plasmacloud/internal/distro/sbom"
	"plasmacloud.io/plasmacloud/internal/release"
)

const (
	// sbomName is the bill of materials' file in the release.
	sbomName = "sbom.cdx.json"

	// sbomFormat is part of the bill's recipe: it changes when the code that writes it does.
	sbomFormat = "1"

	// sbomVersion is the version of the format it is written in.
	sbomVersion = "1.6"
)

// addSBOM adds the bill of materials of all that was collected. It is cached like everything else.
func (c *content) addSBOM(ctx context.Context, r *runner) error {
	var programs []sbom.Program
	var images []sbom.Image
	key := cache.NewKey().Add("format", sbomFormat)
	for _, a := range c.artifacts {
		key.Add("artifact", a.Name, a.Version, a.Kubernetes, a.SHA256)
		switch {
		case a.Kind == release.KindKube, a.Kind == release.KindBinary:
			programs = append(programs, sbom.Program{
				Name: a.Name, Version: a.Version, SHA256: a.SHA256, Path: c.files[a.Path], Native: a.Name == "pause",
			})
		case a.Name == release.ImageToolbox:
			busybox := debian.Installed{Name: busyboxPackage, Version: a.Version, Arch: runtime.GOARCH}
			images = append(images, sbom.Image{Name: a.Name, Version: a.Version, Packages: []debian.Installed{busybox}})
		case a.Kind == release.KindMachine:
			packages, err := readPackages(c.packages)
			if err != nil {
				return err
			}
			images = append(images, sbom.Image{Name: a.Name, Version: a.Version, Packages: packages})
		}
	}
	sum, err := key.Sum()
	if err != nil {
		return err
	}
	entry, _, err := r.store.Build(ctx, "sbom", sum, func(_ context.Context, dir string) error {
		file, err := os.Create(filepath.Join(dir, sbomName))
		if err != nil {
			return err
		}
		if err := sbom.Write(file, programs, images); err != nil {
			return err
		}
		return file.Close()
	})
	if err != nil {
		return err
	}
	all, err := place(entry, sbomName, release.Artifact{Name: "sbom", Kind: release.KindSBOM, Version: sbomVersion, Path: sbomName})
	if err != nil {
		return err
	}
	c.add(all[0])
	return nil
}

func readPackages(record string) ([]debian.Installed, error) {
	data, err := os.ReadFile(record)
	if err != nil {
		return nil, fmt.Errorf("read the machine root's packages: %w", err)
	}
	var packages []debian.Installed
	if err := json.Unmarshal(data, &packages); err != nil {
		return nil, fmt.Errorf("read the machine root's packages: %w", err)
	}
	return packages, nil
}
