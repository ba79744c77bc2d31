package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const envPrefix = "GOVERSE_"

// EnvName returns the environment variable of a flag: GOVERSE_ETCD_LISTEN for --etcd-listen.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// ShowEnv adds each flag's variable to its help, for cmd and all commands below it. Call it once, after all
// flags are defined.
func ShowEnv(cmd *cobra.Command) {
	show := func(f *pflag.Flag) {
		if hasVariable(f) {
			f.Usage += " [" + EnvName(f.Name) + "]"
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(show)
	cmd.PersistentFlags().VisitAll(show)
	for _, sub := range cmd.Commands() {
		ShowEnv(sub)
	}
}

// ApplyEnv sets each flag of cmd that is not on the command line from its variable, if that is set and not
// empty. Such a flag counts as given.
func ApplyEnv(cmd *cobra.Command, lookup func(string) (string, bool)) error {
	var first error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			f.Annotations = map[string][]string{onCommandLine: nil}
		}
		if first != nil || f.Changed || !hasVariable(f) {
			return
		}
		// Empty means unset, because compose files and unit files pass on unset variables as empty.
		value, ok := lookup(EnvName(f.Name))
		if !ok || value == "" {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			name := "environment variable " + EnvName(f.Name)
			first = ExplainBadValue(fmt.Errorf("%s: %w", name, err), name+"="+value)
		}
	})
	return first
}

// onCommandLine is the annotation of a flag that is on the command line.
const onCommandLine = "goverse_on_command_line"

// OnCommandLine reports whether a flag is on the command line, and not only in a variable or the file. Call it after
// ApplyEnv.
func OnCommandLine(fs *pflag.FlagSet, name string) bool {
	f := fs.Lookup(name)
	if f == nil {
		return false
	}
	_, ok := f.Annotations[onCommandLine]
	return ok
}

// hasVariable reports whether a flag has a variable. The flags that cobra adds have none, because they do not
// configure anything.
func hasVariable(f *pflag.Flag) bool { return f.Name != "help" && f.Name != "version" }
