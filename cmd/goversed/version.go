package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/internal/state/format"
)

// versionInfo is the output of goversed version -o json.
type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	// Revision is the commit, and Modified reports uncommitted changes, if the program was built in a checkout.
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
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
				return json.NewEncoder(cmd.OutOrStdout()).Encode(buildVersion())
			case "text":
				_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine())
				return err
			}
			return cli.WrapUsage(cmd.CommandPath(), fmt.Errorf("--output %q: give text or json", output))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", outputUsage)
	return cmd
}

// versionLine returns the output of version and --version.
func versionLine() string {
	return fmt.Sprintf("goversed %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version returns the release of Goverse. Members' records, status and metrics have the same one.
func version() string { return format.Release() }

// buildVersion returns the version with what else the Go tool recorded in the program.
func buildVersion() versionInfo {
	v := versionInfo{Version: version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.addRevision(info.Settings)
	}
	return v
}

// addRevision adds the commit from the settings of a build.
func (v *versionInfo) addRevision(settings []debug.BuildSetting) {
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
}
