// Package command is the command line of the distribution builder, cmd/distro: one file a verb. Data goes to standard
// output, progress to standard error.
package command

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/release"
)

// options are the flags that every verb shares.
type options struct {
	source string
	output string
	cloud  bool
}

func (o *options) distroDir() string { return filepath.Join(o.source, "distro") }

func (o *options) releaseDir() string {
	dir := o.output
	if dir == "" {
		dir = filepath.Join(o.source, "_output", "release")
	}
	if o.cloud {
		return filepath.Join(dir, release.CloudDir)
	}
	return dir
}

// New returns the command with all its verbs.
func New() *cobra.Command {
	o := new(options)
	root := &cobra.Command{
		Use:           "distro",
		Short:         "Build the Kubernetes distribution from source",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&o.source, "source", ".", "clone of the repository to build from")
	root.PersistentFlags().StringVar(&o.output, "output", "", "release directory (default <source>/_output/release)")
	root.PersistentFlags().BoolVar(&o.cloud, "cloud", false, "work on the part of the release that clusters in clouds need")
	root.AddCommand(newBuild(o), newSteps(o), newVerify(o), newExport(o), newPackage(), newNode(o), newAdd(o), newList(o))
	return root
}
