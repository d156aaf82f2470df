package cli

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/release"
)

type versionInfo struct {
	K8shost    string            `json:"k8shost"`
	Go         string            `json:"go"`
	Platform   string            `json:"platform"`
	Kubernetes []string          `json:"kubernetes,omitempty"`
	Programs   map[string]string `json:"programs,omitempty"`
}

func versionCommand() *cobra.Command {
	var out output
	var releaseDir string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and those of the programs in the release",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := versionInfo{K8shost: ownVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if err := info.addRelease(releaseDir); err != nil {
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "k8shost: no release:", err)
			}
			return out.print(cmd.OutOrStdout(), info, info.table)
		},
	}
	cmd.Flags().StringVar(&releaseDir, "release-dir", "", "`directory` of the built release")
	out.addFlag(cmd)
	return cmd
}

func (v *versionInfo) addRelease(dir string) error {
	dir, err := release.Locate(dir)
	if err != nil {
		return err
	}
	catalogue, err := release.Open(dir)
	if err != nil {
		return err
	}
	v.Kubernetes = catalogue.Versions()
	v.Programs = map[string]string{}
	for _, artifact := range catalogue.Artifacts() {
		if artifact.Kind == release.KindBinary {
			v.Programs[artifact.Name] = artifact.Version
		}
	}
	return nil
}

func (v *versionInfo) table(w io.Writer) error {
	_, err := fmt.Fprintf(w, "k8shost %s (%s, %s)\n", v.K8shost, v.Go, v.Platform)
	for _, kubernetes := range v.Kubernetes {
		_, err = fmt.Fprintf(w, "kubernetes %s\n", kubernetes)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Programs)) {
		_, err = fmt.Fprintf(w, "%s %s\n", name, v.Programs[name])
	}
	return err
}

// ownVersion is the version control's state of the build.
func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
