// Package cli is the command line of PlasmaCloud, cloud: the tree of its commands, and how they end. Each noun has a
// package below this one with a file for each verb; what they share is in packages of its own, named after what it
// provides. Data goes to standard output, progress and messages to standard error.
package cli

import (
	"context"
	"io"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"plasmacloud.io/plasmacloud/internal/cli/account"
	"plasmacloud.io/plasmacloud/internal/cli/auth"
	"plasmacloud.io/plasmacloud/internal/cli/bucket"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/contexts"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/instance"
	"plasmacloud.io/plasmacloud/internal/cli/k8s"
	"plasmacloud.io/plasmacloud/internal/cli/k8s/nodegroup"
	"plasmacloud.io/plasmacloud/internal/cli/offer"
	"plasmacloud.io/plasmacloud/internal/cli/org"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/platform"
	"plasmacloud.io/plasmacloud/internal/cli/project"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/cli/task"
	"plasmacloud.io/plasmacloud/internal/cli/token"
	"plasmacloud.io/plasmacloud/internal/cli/user"
	"plasmacloud.io/plasmacloud/internal/cli/vpc"
)

// Silence keeps the libraries' own logs from the terminal: whatever matters comes back as an error.
func Silence() {
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
}

// Run runs a command line and returns its exit code. The installer may be nil: then nothing can be installed.
func Run(ctx context.Context, parts session.Parts, installer platform.Installer, args []string) int {
	root := New(session.New(parts), installer)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		exit.Report(parts.Err, err)
	}
	return int(exit.Of(err))
}

// New returns the root of the commands.
func New(s *session.Session, installer platform.Installer) *cobra.Command {
	root := command.Group("cloud", "Kubernetes clusters as a service")
	root.Long = "cloud creates and manages Kubernetes clusters on a PlasmaCloud installation: one that `cloud up` makes on this host, or\n" +
		"one that runs elsewhere (`cloud context add`)."
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(command.FlagError)
	flags := root.PersistentFlags()
	flags.StringVar(&s.Flags.Context, "context", "", "`name` of the installation to work with (also "+session.VariableContext+"); the current one where it is not given")
	flags.StringVar(&s.Flags.Project, "project", "", "`name` of the project to work in (also "+session.VariableProject+"); the context's where it is not given")
	command.Choice(root, flags, &s.Flags.Output, "output", "o", output.FormatTable, "format of data", output.Formats()...)
	_ = root.RegisterFlagCompletionFunc("context", contexts.Complete(s)) // fails for a flag that is not there
	project.Kind().CompleteFlag(s, root, "project")

	add := func(id, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	add("clusters", "Clusters:", k8s.Command(s, nodegroup.Command(s)), vpc.Command(s), instance.Command(s), task.Command(s), account.Command(s), bucket.Command(s))
	add("offer", "What there is to choose from:", offer.VersionsCommand(s), offer.InstanceTypesCommand(s), offer.PresetsCommand(s))
	add("identity", "Identity:", auth.Login(s), auth.Logout(s), auth.Whoami(s), org.Command(s), project.Command(s), user.Command(s), token.Command(s))
	add("platform", "The platform:", platform.Up(s, installer), platform.Down(s, installer), platform.Status(s, installer))
	add("program", "This program:", contexts.Command(s), auth.Kubeconfig(s), auth.Credential(s), version(s), completion(s))
	root.SetHelpCommand(help(root))
	return root
}

// help is the command that cobra would add by itself, with errors like all others.
func help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Tell about a command", GroupID: "program",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			found, _, err := root.Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			var names []string
			for _, member := range found.Commands() {
				if member.IsAvailableCommand() {
					names = append(names, member.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return command.Unknown(found, rest[0])
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// completion prints the script that a shell needs to complete commands, flags and names.
func completion(s *session.Session) *cobra.Command {
	scripts := map[string]func(*cobra.Command, io.Writer) error{
		"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
		"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) },
	}
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion SHELL", Short: "Print the script that completes commands in a shell",
		Example:           "  source <(cloud completion bash)",
		Args:              command.Exactly("SHELL"),
		ValidArgsFunction: cobra.FixedCompletions(shells, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			script, known := scripts[args[0]]
			if !known {
				return exit.Usagef("there is no completion for %q; there is for %s", args[0], command.Words(shells))
			}
			return script(cmd.Root(), s.Out)
		},
	}
}
