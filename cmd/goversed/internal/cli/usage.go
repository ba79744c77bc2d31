package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagGroup is a group of flags that the help of every command shows together.
type FlagGroup struct {
	// Title is its heading, without a colon.
	Title string
	// Names lists the flags of the group.
	Names []string
}

// GroupFlags makes the help of root and all commands below it show their flags by groups, in the order of the groups.
// A flag of no group is the command's own and comes first.
func GroupFlags(root *cobra.Command, groups []FlagGroup) {
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		var text strings.Builder
		writeUsage(&text, cmd, groups)
		_, err := io.WriteString(cmd.OutOrStderr(), text.String())
		return err
	})
}

// writeUsage writes the same as cobra's own usage, with groups of flags.
func writeUsage(w *strings.Builder, cmd *cobra.Command, groups []FlagGroup) {
	fmt.Fprint(w, "Usage:")
	if cmd.Runnable() {
		fmt.Fprintf(w, "\n  %s", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n  %s [command]", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(w, "\n\nExamples:\n%s", cmd.Example)
	}
	for _, g := range cmd.Groups() {
		writeCommands(w, cmd, g.ID, g.Title)
	}
	writeCommands(w, cmd, "", "Available Commands:")
	for _, g := range splitFlags(cmd, groups) {
		fmt.Fprintf(w, "\n\n%s:\n%s", g.title, strings.TrimRight(g.flags.FlagUsages(), "\n"))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n\nUse %q for more information about a command.", cmd.CommandPath()+" [command] --help")
	}
	fmt.Fprintln(w)
}

// writeCommands writes the commands below cmd that belong to the group, with a heading if there are any.
func writeCommands(w *strings.Builder, cmd *cobra.Command, group, title string) {
	for _, sub := range cmd.Commands() {
		if sub.GroupID != group || !sub.IsAvailableCommand() && sub.Name() != "help" {
			continue
		}
		if title != "" {
			fmt.Fprintf(w, "\n\n%s", title)
			title = ""
		}
		fmt.Fprintf(w, "\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
	}
}

// flagSection is one group of the flags of a command.
type flagSection struct {
	title string
	flags *pflag.FlagSet
}

// splitFlags returns the visible flags of a command by groups, without empty groups.
func splitFlags(cmd *cobra.Command, groups []FlagGroup) (out []flagSection) {
	all, sections := newFlagSet(), make([]*pflag.FlagSet, len(groups)+1)
	for i := range sections {
		sections[i] = newFlagSet()
	}
	all.AddFlagSet(cmd.LocalFlags())
	all.AddFlagSet(cmd.InheritedFlags())
	all.VisitAll(func(f *pflag.Flag) { sections[groupOf(groups, f.Name)].AddFlag(f) })
	for i, flags := range sections {
		title := "Flags"
		if i > 0 {
			title = groups[i-1].Title
		}
		if flags.HasAvailableFlags() {
			out = append(out, flagSection{title, flags})
		}
	}
	return out
}

func newFlagSet() *pflag.FlagSet {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	return fs
}

// groupOf returns the number of the flag's group, from 1 up, or 0 for a command's own flag.
func groupOf(groups []FlagGroup, name string) int {
	for i, g := range groups {
		for _, n := range g.Names {
			if n == name {
				return i + 1
			}
		}
	}
	return 0
}
