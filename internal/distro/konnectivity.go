package distro

import (
	"context"
	"runtime"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/oci"
	"plasmacloud.io/plasmacloud/internal/release"
)

const (
	konnectivityStep = "konnectivity-images"

	// konnectivityRepository is where upstream publishes them.
	konnectivityRepository = "registry.k8s.io/kas-network-proxy/"
)

// konnectivityPrograms are the programs of konnectivity by the name of their image.
var konnectivityPrograms = map[string]string{
	release.ImageKonnectivityServer: "proxy-server",
	release.ImageKonnectivityAgent:  "proxy-agent",
}

func konnectivityLayer(program string) string { return "layer-" + program }

// konnectivity plans the two images of konnectivity, which serve all Kubernetes versions.
func (p *planner) konnectivity() {
	names := []string{release.ImageKonnectivityServer, release.ImageKonnectivityAgent}
	var layers []string
	for _, name := range names {
		program := konnectivityPrograms[name]
		layers = append(layers, konnectivityLayer(program))
		p.layer(konnectivityLayer(program), program, []string{"konnectivity"}, func(in inputs) ([]oci.Node, error) {
			return []oci.Node{{Path: program, Source: in.path("konnectivity", program)}}, nil
		})
	}
	version := p.versions["konnectivity"]
	p.add(&step{
		name: konnectivityStep, title: "konnectivity images", lane: lanePack, needs: layers,
		recipe: func(k *cache.Key) { k.Add("format", imageFormat).Add("images", names...).Add("version", version) },
		build: func(_ context.Context, in inputs, dir string) error {
			images := make([]oci.Image, 0, len(names))
			for _, name := range names {
				program := konnectivityPrograms[name]
				content, err := readLayers(in, konnectivityLayer(program))
				if err != nil {
					return err
				}
				images = append(images, oci.Image{
					Name: name, Kind: release.KindImage, Version: version, Refs: []string{konnectivityRepository + program + ":" + version},
					Layers: content, Entrypoint: []string{"/" + program}, Arch: runtime.GOARCH,
				})
			}
			return writeImages(dir, images)
		},
		artifacts: imageArtifacts,
	})
}
