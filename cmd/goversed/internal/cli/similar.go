package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// didYouMean returns ": did you mean X?" for the most similar of the known names, or "" if none is similar. Dashes is
// put before X.
func didYouMean(name string, known []string, dashes string) string {
	best, least := "", 3 // changes, at most two
	for _, k := range known {
		d := editDistance(name, k)
		if len(name) >= 3 && strings.HasPrefix(k, name) {
			d = min(d, 2) // an abbreviation
		}
		if d < least && d < len(name) {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return ": did you mean " + dashes + best + "?"
}

// explainUnknownFlag adds the flag that was probably meant to the error about a flag that cmd does not have, or the
// commands that have it.
func explainUnknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	name := err.GetSpecifiedName()
	var own, others []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			own = append(own, f.Name)
		}
	})
	if like := didYouMean(name, own, "--"); like != "" {
		return fmt.Errorf("%w%s", err, like)
	}
	visitCommands(cmd.Root(), func(c *cobra.Command) {
		if f := c.LocalFlags().Lookup(name); f != nil && !f.Hidden && !c.Hidden {
			others = append(others, c.CommandPath())
		}
	})
	switch len(others) {
	case 0:
		return err
	case 1, 2:
		return fmt.Errorf("%w: it is a flag of %s", err, strings.Join(others, " and "))
	}
	return fmt.Errorf("%w: it is a flag of other commands, such as %s", err, others[0])
}

// visitCommands calls visit for cmd and all commands below it.
func visitCommands(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		visitCommands(sub, visit)
	}
}

// flagNames returns the sorted names of all flags that can be given by a variable or a file.
func flagNames(root *cobra.Command) (names []string) {
	visitCommands(root, func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if hasVariable(f) {
				names = append(names, f.Name)
			}
		})
	})
	slices.Sort(names)
	return slices.Compact(names)
}
