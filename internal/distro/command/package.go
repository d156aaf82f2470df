package command

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"plasmacloud.io/plasmacloud/internal/distro/oci"
	"plasmacloud.io/plasmacloud/internal/release"
)

// newPackage makes an image of one of our own programs. Those change with every build, so they are no part of the
// release's content cache.
func newPackage() *cobra.Command {
	var ref, file, version string
	command := &cobra.Command{
		Use:     "package BINARY",
		Short:   "Write a static program as an image, in an OCI archive, with the internet's certificate authorities",
		Example: "  distro package --ref plasmacloud.io/cloudd:latest --file images/cloudd.tar bin/cloudd",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return packageProgram(args[0], ref, version, file)
		},
	}
	command.Flags().StringVar(&ref, "ref", "", "name and tag of the image")
	command.Flags().StringVar(&file, "file", "", "archive to write")
	command.Flags().StringVar(&version, "version", "", "version to note in the image (default the program's content)")
	for _, name := range []string{"ref", "file"} {
		if err := command.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return command
}

// authoritiesFile is where programs look for whom to trust.
const authoritiesFile = "etc/ssl/certs/ca-certificates.crt"

// authorities are the certificate authorities of the internet, as Mozilla has them and the Go project passes them on: the
// same on every machine that builds. Those that are trusted with reservations are left out: a file cannot say so.
func authorities() []byte {
	var file bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&file, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // which does not fail in memory
		}
	}
	return file.Bytes()
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func packageProgram(binary, ref, version, file string) (err error) {
	trusted := authorities()
	if version == "" {
		_, sum, err := release.HashFile(binary)
		if err != nil {
			return fmt.Errorf("package %s: %w", binary, err)
		}
		version = "sha256-" + sum + "-" + digest(trusted)[:8]
		if packaged(file, ref, version) {
			return nil
		}
	}
	store, err := os.MkdirTemp("", "package-")
	if err != nil {
		return fmt.Errorf("package %s: %w", binary, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(store)) }()
	name := filepath.Base(binary)
	images := filepath.Join(store, release.ImagesDir)
	layer, err := oci.WriteLayer(images, []oci.Node{{Path: authoritiesFile, Mode: 0o644, Data: trusted}, {Path: "usr/local/bin/" + name, Source: binary}})
	if err != nil {
		return fmt.Errorf("package %s: %w", binary, err)
	}
	artifact, err := oci.Image{
		Name: name, Kind: release.KindImage, Version: version, Refs: []string{ref},
		Layers: []*oci.Layer{layer}, Entrypoint: []string{"/usr/local/bin/" + name}, User: "65532:65532", Arch: runtime.GOARCH,
	}.Write(images)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(release.Manifest{Schema: release.Schema, Artifacts: []release.Artifact{artifact}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(store, release.ManifestName), manifest, 0o600); err != nil {
		return err
	}
	catalogue, err := release.Open(store)
	if err != nil {
		return err
	}
	return writeWhole(file, func(w io.Writer) error { return catalogue.Export(w, ref) })
}

// packaged tells whether an archive holds the image of that name and version already. What says so comes first in it:
// index, manifest, configuration.
func packaged(file, ref, version string) bool {
	archive, err := os.Open(file)
	if err != nil {
		return false
	}
	defer archive.Close() //nolint:errcheck // only read
	named, entries := false, tar.NewReader(archive)
	for {
		header, err := entries.Next()
		if err != nil || header.Size > 1<<20 { // only layers are large
			return false
		}
		content, err := io.ReadAll(entries)
		if err != nil {
			return false
		}
		named = named || header.Name == "index.json" && bytes.Contains(content, []byte(strconv.Quote(ref)))
		if named && bytes.Contains(content, []byte(strconv.Quote(version))) {
			return true
		}
	}
}
