package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Unknown are those of the environment variables in names that look like a flag's, and are of no flag of root and the
// commands below, each with the one that may be meant, "" if none is like it. Known are others that have a meaning.
// Those that Kubernetes makes up of a service's name are left out.
func Unknown(root *cobra.Command, names []string, known ...string) (unknown, meant []string) {
	flags := flagVariables(root)
	for _, name := range names {
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(flags, name) || slices.Contains(known, name) ||
			ofService(name, names) {
			continue
		}
		like := ""
		for _, flag := range flags {
			if d := distance(name, flag); d <= 2 && (like == "" || d < distance(name, like)) {
				like = flag
			}
		}
		unknown, meant = append(unknown, name), append(meant, like)
	}
	return unknown, meant
}

// flagVariables are those of all flags, in order.
func flagVariables(cmd *cobra.Command) (out []string) {
	add := func(f *pflag.Flag) {
		if fromEnv(f) {
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

// ofService reports whether a variable is one of those that Kubernetes sets for a service: NAME_SERVICE_HOST is always
// among them.
func ofService(name string, names []string) bool {
	return slices.ContainsFunc(names, func(host string) bool {
		service, ok := strings.CutSuffix(host, "_SERVICE_HOST")
		return ok && (strings.HasPrefix(name, service+"_SERVICE_") || name == service+"_PORT" ||
			strings.HasPrefix(name, service+"_PORT_"))
	})
}

// distance is how many letters have to be put in, taken out or changed to make b of a.
func distance(a, b string) int {
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
