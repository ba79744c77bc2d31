package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const envPrefix = "GOVERSE_"

// EnvName is the environment variable of a flag: GOVERSE_ETCD_LISTEN for
// --etcd-listen.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// ShowEnv writes each flag's variable into its help, for cmd and all below it.
// Call it once, when all flags are there.
func ShowEnv(cmd *cobra.Command) {
	show := func(f *pflag.Flag) {
		if fromEnv(f) {
			f.Usage += " [" + EnvName(f.Name) + "]"
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(show)
	cmd.PersistentFlags().VisitAll(show)
	for _, sub := range cmd.Commands() {
		ShowEnv(sub)
	}
}

// ApplyEnv sets every flag of cmd that was not given from its variable, if that is
// set and not empty. A flag that was set so counts as given.
func ApplyEnv(cmd *cobra.Command, lookup func(string) (string, bool)) error {
	var first error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if first != nil || f.Changed || !fromEnv(f) {
			return
		}
		// Empty is unset: compose files and unit files pass variables on that way.
		value, ok := lookup(EnvName(f.Name))
		if !ok || value == "" {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			name := "environment variable " + EnvName(f.Name)
			first = BadValue(fmt.Errorf("%s: %w", name, err), name+"="+value)
		}
	})
	return first
}

// fromEnv leaves out the flags that cobra adds, which ask instead of configure.
func fromEnv(f *pflag.Flag) bool { return f.Name != "help" && f.Name != "version" }
