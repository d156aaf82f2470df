package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// choice is the value of a flag that takes one of a few words, in whatever case.
type choice struct {
	target  *string
	allowed []string
}

// Choice adds a flag that takes one of a few words, and completes them.
func Choice(cmd *cobra.Command, flags *pflag.FlagSet, target *string, name, short, value, usage string, allowed ...string) {
	*target = value
	flags.VarP(&choice{target: target, allowed: allowed}, name, short, usage+": "+Words(allowed))
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that is not there
}

// String implements pflag.Value.
func (c *choice) String() string { return *c.target }

// Type implements pflag.Value.
func (c *choice) Type() string { return "word" }

// Set implements pflag.Value.
func (c *choice) Set(text string) error {
	for _, allowed := range c.allowed {
		if strings.EqualFold(text, allowed) {
			*c.target = allowed
			return nil
		}
	}
	return fmt.Errorf("%q is none of %s%s", text, Words(c.allowed), DidYouMean(text, c.allowed, ""))
}

// Words joins them as people do.
func Words(list []string) string {
	last := len(list) - 1
	if last < 1 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:last], ", ") + " or " + list[last]
}
