// Command goversed runs a Goverse node as a process. It is also the operators' tool: see goversed --help.
//
// Not promised: the text output may change. Scripts can rely on -o json, the exit code, and the HTTP API.
package main

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/reaper"
	"github.com/goverse/goverse/internal/wait"
)

func main() {
	if status, done := reaper.Run(); done { // this was process 1, and ran the program as its child
		os.Exit(status)
	}
	os.Exit(runCommandLine(context.Background(), os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr,
		variableNames(os.Environ())...))
}

func variableNames(environ []string) []string {
	names := make([]string, len(environ))
	for i, entry := range environ {
		names[i], _, _ = strings.Cut(entry, "=")
	}
	return names
}

// runCommandLine executes one command line. No other function prints errors or chooses the exit code. Names lists the
// variables of the environment.
func runCommandLine(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer,
	names ...string) int {
	root := newRoot(env, names...)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	// A pipe may have no reader.
	wait.JoinFunc(func() { cli.PrintError(stderr, root.Name(), err) }, wait.JoinLimit)
	return cli.ExitCode(err)
}
