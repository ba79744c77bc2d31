package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

// versionInfo is the output of goversed version -o json.
type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  goversed version\n  goversed version -o json | jq -r .version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch output {
			case "json":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(versionInfo{version(), runtime.Version(), runtime.GOOS,
					runtime.GOARCH})
			case "text":
				_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine())
				return err
			}
			return cli.WrapUsage(cmd.CommandPath(), fmt.Errorf("--output %q: give text or json", output))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// versionLine returns the output of version and --version.
func versionLine() string {
	return fmt.Sprintf("goversed %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version returns the version that the Go tool recorded in the binary: a release, or a commit and its time. It
// returns "(devel)" if neither was known.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
