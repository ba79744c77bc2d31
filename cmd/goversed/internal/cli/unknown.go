package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// UnknownVariables returns the variables in names that look like a flag's variable but belong to no flag of root or the
// commands below it. For each, meant has the most similar variable of a flag, or "" if none is similar. Known
// lists other variables to leave out. Variables that Kubernetes derives from the name of a service are left out
// as well.
func UnknownVariables(root *cobra.Command, names []string, known ...string) (unknown, meant []string) {
	flags := flagVariables(root)
	for _, name := range names {
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(flags, name) || slices.Contains(known, name) ||
			setByKubernetes(name, names) {
			continue
		}
		like := ""
		for _, flag := range flags {
			if d := editDistance(name, flag); d <= 2 && (like == "" || d < editDistance(name, like)) {
				like = flag
			}
		}
		unknown, meant = append(unknown, name), append(meant, like)
	}
	return unknown, meant
}

// flagVariables returns the sorted variables of all flags.
func flagVariables(cmd *cobra.Command) (out []string) {
	add := func(f *pflag.Flag) {
		if hasVariable(f) {
			out = append(out, EnvName(f.Name))
		}
	}
	cmd.LocalFlags().VisitAll(add)
	for _, sub := range cmd.Commands() {
		out = append(out, flagVariables(sub)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// setByKubernetes reports whether Kubernetes set the variable for a service. Such variables always include
// NAME_SERVICE_HOST.
func setByKubernetes(name string, names []string) bool {
	return slices.ContainsFunc(names, func(host string) bool {
		service, ok := strings.CutSuffix(host, "_SERVICE_HOST")
		return ok && (strings.HasPrefix(name, service+"_SERVICE_") || name == service+"_PORT" ||
			strings.HasPrefix(name, service+"_PORT_"))
	})
}

// editDistance returns the number of letters to insert, delete or change to turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
