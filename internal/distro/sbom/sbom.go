// Package sbom writes the release's bill of materials in CycloneDX's format. What a Go program is made of comes from
// the build information that the compiler put into it, what an image's Debian part is made of from its package list.
package sbom

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"plasmacloud.io/plasmacloud/internal/distro/debian"
)

// Program is a binary of the release.
type Program struct {
	Name, Version, SHA256 string
	Path                  string // of the file
	Native                bool   // not written in Go: it has no build information
}

// Image is an image with Debian packages in it.
type Image struct {
	Name, Version string
	Packages      []debian.Installed
}

// Write writes the bill of materials of programs and images. It is the same for the same content.
func Write(w io.Writer, programs []Program, images []Image) error {
	b := &bill{components: make(map[string]cdx.Component), dependencies: make(map[string][]string)}
	for _, program := range programs {
		if err := b.program(program); err != nil {
			return err
		}
	}
	for _, image := range images {
		b.image(image)
	}
	return b.write(w)
}

// bill is what was found so far, by the components' references.
type bill struct {
	components   map[string]cdx.Component
	dependencies map[string][]string
}

func (b *bill) add(component cdx.Component) string {
	b.components[component.BOMRef] = component
	return component.BOMRef
}

func (b *bill) program(p Program) error {
	ref := b.add(cdx.Component{
		BOMRef: "program:" + p.Name + "@" + p.Version, Type: cdx.ComponentTypeApplication, Name: p.Name, Version: p.Version,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.SHA256}},
	})
	if p.Native {
		b.dependencies[ref] = []string{}
		return nil
	}
	info, err := buildinfo.ReadFile(p.Path)
	if err != nil {
		return fmt.Errorf("read what %s is made of: %w", p.Name, err)
	}
	b.dependencies[ref] = b.modules(info)
	return nil
}

// modules adds the modules in a program; where another was put in a module's place, it is that one which is in it.
func (b *bill) modules(info *debug.BuildInfo) []string {
	parts := []string{b.module("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		parts = append(parts, b.module(module.Path, module.Version, module.Sum))
	}
	return parts
}

func (b *bill) module(path, version, sum string) string {
	purl := "pkg:golang/" + path + "@" + url.PathEscape(version)
	component := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl}
	if sum != "" {
		component.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}} // a hash of hashes, which has no name of its own
	}
	return b.add(component)
}

func (b *bill) image(image Image) {
	ref := b.add(cdx.Component{
		BOMRef: "image:" + image.Name + "@" + image.Version, Type: cdx.ComponentTypeContainer, Name: image.Name, Version: image.Version,
	})
	parts := []string{}
	for _, p := range image.Packages {
		purl := fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", url.PathEscape(p.Name), url.QueryEscape(p.Version), url.QueryEscape(p.Arch))
		parts = append(parts, b.add(cdx.Component{
			BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: p.Name, Version: p.Version, PackageURL: purl,
		}))
	}
	b.dependencies[ref] = parts
}

func (b *bill) write(w io.Writer) error {
	components := make([]cdx.Component, 0, len(b.components))
	for _, ref := range slices.Sorted(maps.Keys(b.components)) {
		components = append(components, b.components[ref])
	}
	dependencies := make([]cdx.Dependency, 0, len(b.dependencies))
	for _, ref := range slices.Sorted(maps.Keys(b.dependencies)) {
		parts := b.dependencies[ref]
		slices.Sort(parts)
		parts = slices.Compact(parts)
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &parts})
	}
	bom := cdx.NewBOM()
	bom.Components, bom.Dependencies = &components, &dependencies
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{BOMRef: "release", Type: cdx.ComponentTypePlatform, Name: "plasmacloud-release"}}
	serial, err := serialNumber(components)
	if err != nil {
		return err
	}
	bom.SerialNumber = serial
	if err := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return fmt.Errorf("write bill of materials: %w", err)
	}
	return nil
}

// serialNumber names the bill by its content, in the form of a UUID made from a hash (version 8).
func serialNumber(components []cdx.Component) (string, error) {
	data, err := json.Marshal(components)
	if err != nil {
		return "", fmt.Errorf("write bill of materials: %w", err)
	}
	id := sha256.Sum256(data)
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16]), nil
}
