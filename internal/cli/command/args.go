package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

// None takes no arguments.
func None(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef("%s takes no arguments, but got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// Exactly takes these arguments, which are named as in the command's usage.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return missing(cmd, names[len(args)])
		}
		if len(args) > len(names) {
			return exit.Usagef("%s takes %s only, but got %q too", cmd.CommandPath(), strings.Join(names, " and "), args[len(names)])
		}
		return nil
	}
}

// AtLeastOne takes one argument or more.
func AtLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return missing(cmd, name)
		}
		return nil
	}
}

// AtMostOne takes one argument or none.
func AtMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return exit.Usagef("%s takes one %s only, but got %q too", cmd.CommandPath(), name, args[1])
		}
		return nil
	}
}

func missing(cmd *cobra.Command, name string) error {
	return exit.With(exit.Usage, "usage: "+cmd.UseLine(), fmt.Errorf("%s is missing", name))
}

// Name is the name of what is to be made, which may be given by --name or as the argument.
func Name(cmd *cobra.Command, flag string, args []string) (string, error) {
	switch {
	case len(args) == 1 && flag != "" && flag != args[0]:
		return "", exit.Usagef("two names are given, %q and --name %q; one is enough", args[0], flag)
	case len(args) == 1 && args[0] != "":
		return args[0], nil
	case flag != "":
		return flag, nil
	default:
		return "", exit.With(exit.Usage, "usage: "+cmd.UseLine(), fmt.Errorf("--name is missing"))
	}
}
