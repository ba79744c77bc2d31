// Command goversed is a Goverse node as a process, and the operators' tool beside
// it: see goversed --help.
//
// Not promised: that what is printed for people stays as it is. Scripts use
// -o json, the exit code, and the HTTP API.
package main

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/reaper"
)

func main() {
	if status, done := reaper.Run(); done { // this was process 1, and started the program again
		os.Exit(status)
	}
	os.Exit(run(context.Background(), os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr, variables(os.Environ())...))
}

// variables are the names in an environment.
func variables(environ []string) []string {
	names := make([]string, len(environ))
	for i, entry := range environ {
		names[i], _, _ = strings.Cut(entry, "=")
	}
	return names
}

// run carries one command line out. It is the only place that prints errors and
// chooses the exit code. The names are those of the environment's variables.
func run(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer,
	names ...string) int {
	root := newRoot(env, names...)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	report(func() { cli.Report(stderr, root.Name(), err) })
	return cli.ExitCode(err)
}

// reportTimeout bounds the wait for somebody who reads a line.
const reportTimeout = time.Second

// report writes a line, and waits for that no longer than reportTimeout: nobody may read it.
func report(write func()) {
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		write()
	}()
	select {
	case <-reported:
	case <-time.After(reportTimeout):
	}
}
