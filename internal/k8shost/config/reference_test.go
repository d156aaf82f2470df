package config_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"plasmacloud.io/plasmacloud/internal/k8shost/config"
)

// update writes the reference anew: go test ./internal/k8shost/config -run Reference -update
var update = flag.Bool("update", false, "write docs/k8shost-flags.md from the flags")

const introduction = `# Flags of k8shost

Flags have the names they have in k3s. Each can also be set by its environment variable or,
under its name without the dashes, in the YAML file that ` + "`--config`" + ` names. The command line
wins over the environment, the environment over the file, the file over the default:

` + "```yaml" + `
# /etc/k8shost/config.yaml
cluster-init: true
tls-san:
  - k8s-api.example.com
disable: [servicelb, traefik]
kube-apiserver-arg:
  - audit-log-maxage=30
` + "```" + `

Unknown keys and flags, values of the wrong kind and settings that contradict each other are
errors that name the flag, the line or the variable. Repeatable flags take lists in the file
and commas on the command line and in the environment, except for the ` + "`*-arg`" + ` ones, whose
values may hold commas themselves. ` + "`k8shost up`" + ` takes the flags of ` + "`k8shost server`" + `.

This page is written by ` + "`go test ./internal/k8shost/config -run Reference -update`" + `.
`

func TestReferenceIsTrue(t *testing.T) {
	var server config.Server
	var agent config.Agent
	var b strings.Builder
	b.WriteString(introduction)
	reference(&b, "k8shost server", server.AddFlags)
	reference(&b, "k8shost agent", agent.AddFlags)

	path := filepath.Join("..", "..", "..", "docs", "k8shost-flags.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), b.String()); diff != "" {
		t.Errorf("docs/k8shost-flags.md is out of date, run this test with -update: %s", diff)
	}
}

// reference writes a table for each group of flags, in the order they were added.
func reference(b *strings.Builder, command string, add func(*pflag.FlagSet)) {
	fs := pflag.NewFlagSet(command, pflag.ContinueOnError)
	fs.SortFlags = false
	add(fs)
	fmt.Fprintf(b, "\n## %s\n", command)
	heading := ""
	fs.VisitAll(func(f *pflag.Flag) {
		if group := f.Annotations[config.AnnotationGroup][0]; group != heading {
			heading = group
			fmt.Fprintf(b, "\n### %s\n\n| flag | default | environment | meaning |\n|---|---|---|---|\n", heading)
		}
		name, usage := pflag.UnquoteUsage(f)
		value := "`--" + f.Name + "`"
		if name != "" {
			value = fmt.Sprintf("`--%s` *%s*", f.Name, name)
		}
		def := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			def = "`" + f.DefValue + "`"
		}
		environment := "`" + strings.Join(f.Annotations[config.AnnotationEnvironment], "`, `") + "`"
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", value, def, environment, strings.NewReplacer("|", `\|`, "*", `\*`).Replace(usage))
	})
}
