package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

var updateDocs = flag.Bool("docs.update", false, "write the generated part of docs/reference/cli.md anew")

// generatedBelow separates the written part of the page from the generated one.
const generatedBelow = "<!-- generated below: go test ./cmd/goversed -run TestCommandReference -docs.update -->\n"

// The generated part of docs/reference/cli.md has the help of every command. Regenerate it with
//
//	go test ./cmd/goversed -run TestCommandReference -docs.update
func TestCommandReference(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "docs", "reference", "cli.md")
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	written, generated, found := strings.Cut(string(have), generatedBelow)
	require.True(t, found, "%s has the line %s", file, generatedBelow)
	text := commandReference(t)
	if *updateDocs {
		require.NoError(t, os.WriteFile(file, []byte(written+generatedBelow+"\n"+text), 0o644)) //nolint:gosec // public
		return
	}
	want, is := strings.Split("\n"+text, "\n## "), strings.Split(generated, "\n## ")
	for i := range min(len(want), len(is)) { // one command at a time, because the whole page is too long for a message
		require.Equal(t, want[i], is[i], "%s is not current", file)
	}
	require.Equal(t, len(want), len(is), "%s is not current: it has other commands", file)
}

// commandReference returns the help of all commands that users can see, each below a heading with the command.
func commandReference(t *testing.T) string {
	t.Helper()
	root := newRoot(func(string) (string, bool) { return "", false })
	root.InitDefaultCompletionCmd() // a command line adds it when it runs
	var b strings.Builder
	var write func(cmd *cobra.Command)
	write = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())
		r := runGoversed(t, nil, append(path[1:], "--help")...)
		require.Equal(t, cli.ExitOK, r.code, "%s: %s", cmd.CommandPath(), r.stderr)
		require.NotContains(t, r.stdout, "```", cmd.CommandPath())
		fmt.Fprintf(&b, "## %s\n\n```text\n%s\n```\n\n", cmd.CommandPath(), strings.TrimSpace(r.stdout))
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				write(sub)
			}
		}
	}
	write(root)
	require.NotContains(t, b.String(), "## goversed "+guardName, "it is hidden")
	for _, command := range []string{"node", "effects resolve", "completion bash"} {
		require.Contains(t, b.String(), "## goversed "+command+"\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
