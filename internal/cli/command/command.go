// Package command builds commands the way all of them are built here: groups that know what was meant, arguments and
// flags whose errors say what to give instead.
package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

// Group is a command that only holds others.
func Group(use, short string, members ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{
		Use: use, Short: short,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return Unknown(cmd, args[0])
		},
	}
	group.AddCommand(members...)
	return group
}

// Alias gives a command other names.
func Alias(cmd *cobra.Command, names ...string) *cobra.Command {
	cmd.Aliases = append(cmd.Aliases, names...)
	return cmd
}

// Unknown says that a command has no member of this name, and which one was probably meant.
func Unknown(cmd *cobra.Command, word string) error {
	var names []string
	for _, member := range cmd.Commands() {
		if member.IsAvailableCommand() {
			names = append(names, append([]string{member.Name()}, member.Aliases...)...)
		}
	}
	hint := fmt.Sprintf("`%s --help` lists the commands", cmd.CommandPath())
	return exit.With(exit.Usage, hint, fmt.Errorf("unknown command %q for %q%s", word, cmd.CommandPath(), DidYouMean(word, names, "")))
}

// FlagError puts pflag's complaints about a command line into words. It fits cobra's SetFlagErrorFunc.
func FlagError(cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("`%s --help` lists the flags", cmd.CommandPath())
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok && missing.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if !flag.Hidden {
				names = append(names, flag.Name)
			}
		})
		name := missing.GetSpecifiedName()
		return exit.With(exit.Usage, hint, fmt.Errorf("unknown flag --%s%s", name, DidYouMean(name, names, "--")))
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return exit.With(exit.Usage, hint, fmt.Errorf("--%s: %s", invalid.GetFlag().Name, why(invalid)))
	}
	return exit.With(exit.Usage, hint, err)
}

// why says in words why a flag did not take a value.
func why(invalid *pflag.InvalidValueError) string {
	kinds := map[string]string{"int": "a whole number", "int32": "a whole number", "bool": "true or false", "duration": "a time, such as 90s or 10m"}
	if kind, ok := kinds[invalid.GetFlag().Value.Type()]; ok {
		return fmt.Sprintf("%q is not %s", invalid.GetValue(), kind)
	}
	return invalid.Unwrap().Error()
}

// DidYouMean offers the candidate that is a few typing errors away, if there is one.
func DidYouMean(word string, candidates []string, prefix string) string {
	slips := 2 // two letters that changed places are two
	if len(word) < 4 {
		slips = 1
	}
	best, nearest := max(slips, len(word)/4)+1, ""
	for _, candidate := range candidates {
		distance := levenshtein.Distance(strings.ToLower(word), strings.ToLower(candidate), nil)
		if strings.HasPrefix(candidate, word) && len(word) > 2 {
			distance = 1
		}
		if distance < best && distance < len(candidate) {
			best, nearest = distance, candidate
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, nearest)
}
