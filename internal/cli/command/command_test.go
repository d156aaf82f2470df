package command

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

// run runs a small tree of commands.
func run(args ...string) (string, error) {
	var out strings.Builder
	var color, name string
	var wait time.Duration
	var count int32
	leaf := &cobra.Command{Use: "paint NAME", Args: Exactly("NAME"), RunE: func(_ *cobra.Command, args []string) error {
		out.WriteString(args[0] + " " + color)
		return nil
	}}
	Choice(leaf, leaf.Flags(), &color, "color", "", "Red", "colour", "Red", "Green")
	leaf.Flags().DurationVar(&wait, "wait", 0, "")
	leaf.Flags().Int32Var(&count, "count", 0, "")
	create := &cobra.Command{Use: "make [NAME]", Args: AtMostOne("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		chosen, err := Name(cmd, name, args)
		out.WriteString(chosen)
		return err
	}}
	create.Flags().StringVar(&name, "name", "", "")
	idle := &cobra.Command{Use: "idle", Args: None, RunE: func(*cobra.Command, []string) error { return nil }}
	drop := &cobra.Command{Use: "drop NAME…", Args: AtLeastOne("NAME"), RunE: func(*cobra.Command, []string) error { return nil }}
	root := Group("tool", "A tool", Group("thing", "Things", Alias(leaf, "colour"), create, idle, drop))
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(FlagError)
	root.SetArgs(args)
	root.SetOut(io.Discard)
	err := root.Execute()
	return out.String(), err
}

func TestAccepted(t *testing.T) {
	for line, want := range map[string]string{
		"":                                  "",
		"thing":                             "",
		"thing paint x":                     "x Red",
		"thing colour x":                    "x Red",
		"thing paint --color grEEn x":       "x Green",
		"thing paint --wait 5s --count 3 x": "x Red",
		"thing make a":                      "a",
		"thing make --name a":               "a",
		"thing make --name a a":             "a",
		"thing idle":                        "",
		"thing drop a b":                    "",
	} {
		if have, err := run(strings.Fields(line)...); err != nil || have != want {
			t.Errorf("%s: %q %v", line, have, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for line, says := range map[string]string{
		"thimg":                     `unknown command "thimg" for "tool"; did you mean thing?`,
		"thing pant":                `for "tool thing"; did you mean paint?`,
		"thing xyzzy":               `unknown command "xyzzy" for "tool thing"`,
		"thing paint":               "NAME is missing",
		"thing paint a b":           `takes NAME only, but got "b" too`,
		"thing paint --colr Red x":  "unknown flag --colr; did you mean --color?",
		"thing paint --color Rod x": `--color: "Rod" is none of Red or Green; did you mean Red?`,
		"thing paint --wait soon x": `--wait: "soon" is not a time, such as 90s or 10m`,
		"thing paint --count few x": `--count: "few" is not a whole number`,
		"thing paint -z x":          "unknown shorthand flag",
		"thing make":                "--name is missing",
		"thing make a b":            `takes one NAME only`,
		"thing make --name a b":     "two names are given",
		"thing idle a":              `takes no arguments, but got "a"`,
		"thing drop":                "NAME is missing",
	} {
		_, err := run(strings.Fields(line)...)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, not %q", line, err, says)
		}
		if exit.Of(err) != exit.Usage {
			t.Errorf("%s: exit code %d", line, exit.Of(err))
		}
	}
}
