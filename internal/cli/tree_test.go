package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/cli/account"
	"plasmacloud.io/plasmacloud/internal/cli/bucket"
	"plasmacloud.io/plasmacloud/internal/cli/instance"
	"plasmacloud.io/plasmacloud/internal/cli/k8s"
	"plasmacloud.io/plasmacloud/internal/cli/k8s/nodegroup"
	"plasmacloud.io/plasmacloud/internal/cli/org"
	"plasmacloud.io/plasmacloud/internal/cli/project"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/cli/task"
	"plasmacloud.io/plasmacloud/internal/cli/user"
	"plasmacloud.io/plasmacloud/internal/cli/vpc"
)

const (
	page  = "../../docs/cli.md"
	begin = "<!-- The rest is written by `go test ./internal/cli -run Reference -update`. -->\n"
)

func tree() *cobra.Command {
	return New(session.New(session.Parts{Env: func(string) string { return "" }}), nil)
}

// walk visits every command that a user sees.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, member := range cmd.Commands() {
		if member.IsAvailableCommand() {
			walk(member, visit)
		}
	}
}

func TestReferenceIsTrue(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	written, _, found := strings.Cut(string(content), begin)
	if !found {
		t.Fatalf("%s does not say where the reference begins", page)
	}
	var text strings.Builder
	root := tree()
	text.WriteString(written + begin + "\n## Commands\n\n| command | what it does |\n|---|---|\n")
	walk(root, func(cmd *cobra.Command) {
		if cmd != root && !cmd.HasSubCommands() {
			fmt.Fprintf(&text, "| [`%s`](#%s) | %s |\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short)
		}
	})
	text.WriteString("\nEvery command takes these flags:\n\n")
	describe(&text, root.PersistentFlags())
	walk(root, func(cmd *cobra.Command) {
		if cmd != root && !cmd.HasSubCommands() {
			reference(&text, cmd)
		}
	})
	golden(t, page, text.String())
}

func reference(text *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(text, "\n### %s\n\n", cmd.CommandPath())
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	fmt.Fprintf(text, "%s\n\n```\n%s\n```\n", about, strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	if cmd.Example != "" {
		fmt.Fprintf(text, "\n```sh\n%s\n```\n", regexp.MustCompile(`(?m)^  `).ReplaceAllString(cmd.Example, ""))
	}
	if cmd.HasAvailableLocalFlags() {
		text.WriteString("\n")
		describe(text, cmd.LocalFlags())
	}
}

func describe(text *strings.Builder, flags *pflag.FlagSet) {
	text.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Name == "help" {
			return
		}
		name, usage := pflag.UnquoteUsage(flag)
		spelling := "`--" + flag.Name + "`"
		if flag.Shorthand != "" {
			spelling = "`-" + flag.Shorthand + "`, " + spelling
		}
		if name != "" {
			spelling += " *" + name + "*"
		}
		value := flag.DefValue
		if value == "[]" || value == "" {
			value = ""
		} else {
			value = "`" + value + "`"
		}
		fmt.Fprintf(text, "| %s | %s | %s |\n", spelling, value, usage)
	})
}

// TestColumnsAreThoseOfKubectl compares with the printer columns of the API.
func TestColumnsAreThoseOfKubectl(t *testing.T) {
	columns := map[string][]string{}
	add := func(plural string, names []string) { columns[plural] = names }
	add("organizations", names(org.Kind()))
	add("projects", names(project.Kind()))
	add("users", names(user.Kind()))
	add("accounts", names(account.Kind()))
	add("networks", names(vpc.Kind()))
	add("clusters", names(k8s.Kind()))
	add("nodegroups", names(nodegroup.Kind()))
	add("machines", names(instance.Kind()))
	add("tasks", names(task.Kind()))
	add("buckets", names(bucket.Kind()))
	for plural, have := range columns {
		content, err := os.ReadFile("../../api/crd/plasmacloud.io_" + plural + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Versions []struct {
					AdditionalPrinterColumns []struct {
						Name     string `json:"name"`
						Priority int    `json:"priority"`
					} `json:"additionalPrinterColumns"`
				} `json:"versions"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(content, &crd); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			if column.Priority == 0 {
				want = append(want, strings.ToUpper(column.Name))
			}
		}
		if !reflect.DeepEqual(have, want) {
			t.Errorf("%s: cloud shows %v, kubectl %v", plural, have, want)
		}
	}
}

func names[T client.Object](kind *resource.Kind[T]) []string {
	var names []string
	for _, column := range kind.Columns {
		names = append(names, column.Name)
	}
	return names
}

// TestEveryCommandAndFlagIsTested looks for each of them in transcripts and tests.
func TestEveryCommandAndFlagIsTested(t *testing.T) {
	var tests strings.Builder
	for _, pattern := range []string{"testdata/*.txt", "*_test.go", "platform/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tests.WriteString(strings.ReplaceAll(string(content), `", "`, " "))
		}
	}
	lines := strings.Split(tests.String(), "\n")
	walk(tree(), func(cmd *cobra.Command) {
		if cmd.HasSubCommands() {
			return
		}
		path := strings.TrimPrefix(cmd.CommandPath(), "cloud ")
		calls := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.Contains(line, path) })
		if len(calls) == 0 {
			t.Errorf("no test runs `cloud %s`", path)
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			used := func(line string) bool {
				return strings.Contains(line, "--"+flag.Name) || (flag.Shorthand != "" && strings.Contains(line+" ", " -"+flag.Shorthand+" "))
			}
			if flag.Name != "help" && !slices.ContainsFunc(calls, used) {
				t.Errorf("no test gives `cloud %s` the flag --%s", path, flag.Name)
			}
		})
	})
}

// TestCommandsAreDescribed keeps the help readable.
func TestCommandsAreDescribed(t *testing.T) {
	walk(tree(), func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") || len(cmd.Short) > 80 {
			t.Errorf("%s: the short help is %q", cmd.CommandPath(), cmd.Short)
		}
		for _, line := range strings.Split(cmd.Long, "\n") {
			if len(line) > 125 {
				t.Errorf("%s: a line of the help has %d characters", cmd.CommandPath(), len(line))
			}
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.Usage == "" {
				t.Errorf("%s --%s: there is no help", cmd.CommandPath(), flag.Name)
			}
		})
	})
}
