package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// build is what is known of this program.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func version(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program",
		Args: command.None,
		RunE: func(*cobra.Command, []string) error {
			b := built()
			return s.Printer().Print(output.View{Value: b, Names: []string{b.Version}, Table: []output.Section{{Table: output.Table{Rows: [][]string{
				{"Version:", b.Version}, {"Commit:", output.Or(b.Commit)}, {"Go:", b.Go}, {"Platform:", b.Platform},
			}}}}})
		},
	}
}

func built() build {
	b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}
