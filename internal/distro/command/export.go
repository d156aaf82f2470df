package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/release"
)

func newExport(o *options) *cobra.Command {
	var file string
	export := &cobra.Command{
		Use:   "export REF...",
		Short: "Write images of the release as one OCI archive, which `ctr images import` reads",
		Example: "  distro export plasmacloud.io/toolbox:latest | ctr -n k8s.io images import -\n" +
			"  distro export --file machine.tar plasmacloud.io/machine:v1.36.3",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, refs []string) error {
			catalogue, err := release.Open(o.releaseDir())
			if err != nil {
				return err
			}
			if file == "" {
				return catalogue.Export(cmd.OutOrStdout(), refs...)
			}
			return writeWhole(file, func(w io.Writer) error { return catalogue.Export(w, refs...) })
		},
	}
	export.Flags().StringVar(&file, "file", "", "file to write; standard output if empty")
	return export
}

// writeWhole makes the file appear as a whole or not at all: whoever imports what is in a directory sees no half one.
func writeWhole(path string, write func(io.Writer) error) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".export-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(temporary.Name()) //nolint:errcheck // gone once it is renamed
	if err := errors.Join(write(temporary), temporary.Chmod(0o644), temporary.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(temporary.Name(), path)
}
