package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/dev"
)

func newDev() *cobra.Command {
	cfg := dev.Config{}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole cluster on this machine, to try Goverse out",
		Long: `Run an embedded etcd and some nodes on this machine, and show the events of the cluster: as a live
table in a terminal, otherwise as one line per event. Each node is a process of its own and listens
on free ports of 127.0.0.1. The etcd listens at the default of --etcd, where other commands find it
without flags. If that port is in use, it listens on another one.

Lines in a terminal are colored unless NO_COLOR is set. The nodes' warnings go to standard error. If
that is the same terminal, they are shown only with --verbose, or after a failure.

With --kill-leader-every the leader's process gets a SIGKILL again and again. A new process takes
its address, and the time until the next node leads is measured.

Ctrl-C stops all processes in order, and a second Ctrl-C stops them immediately. Nothing is left
behind.`,
		Example: `  goversed dev
  goversed dev --nodes 5 --kill-leader-every 5s
  goversed dev --for 30s --kill-leader-every 2s --ttl 2s | grep leads`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDev(cmd, cfg) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&cfg.Nodes, "nodes", 3, "number of nodes, each a process")
	fs.DurationVar(&cfg.For, "for", 0, "end after this time (default: run until Ctrl-C)")
	fs.DurationVar(&cfg.KillEvery, "kill-leader-every", 0,
		"time between two kills of the leader's process; a kill also waits until all nodes are queued (default: never)")
	fs.DurationVar(&cfg.TTL, "ttl", 10*time.Second, ttlUsage)
	fs.StringVar(&cfg.EtcdListen, "etcd-listen", defaultEtcd, "`host:port` of the embedded etcd; without this flag, "+
		"another port is chosen if this one is in use")
	fs.BoolVar(&cfg.Verbose, "verbose", false, "show the nodes' log from level info up, and etcd's warnings")
	return cmd
}

func runDev(cmd *cobra.Command, cfg dev.Config) error {
	self, err := os.Executable()
	if err != nil {
		return errors.New("cannot find this program's own file, which the nodes are run from: call it by its full path")
	}
	cfg.Command, cfg.Program = []string{self, "node"}, programName(self, os.Args[0])
	cfg.Stdout, cfg.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if columns, ok := terminalSize(cfg.Stdout, os.Getenv("TERM")); ok {
		cfg.Terminal = columns
		if _, same := terminalSize(cfg.Stderr, os.Getenv("TERM")); same {
			cfg.Stderr = nil // log lines would overwrite the table
		}
	}
	cfg.Color = cfg.Terminal != nil && os.Getenv("NO_COLOR") == "" // see https://no-color.org
	cfg.DefaultEtcd, cfg.OtherPort = defaultEtcd, !cmd.Flags().Changed("etcd-listen")
	if err := cfg.Validate(); err != nil {
		return cli.WrapUsage(cmd.CommandPath(), err)
	}

	ctx, cut, release := withSignals(cmd.Context())
	defer release()
	if !signal.Ignored(syscall.SIGHUP) { // ignored under nohup
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal was closed
		defer stop()
	}
	// If the reader of a pipe goes away (`| head`), a write must fail instead of ending the process, which has
	// to clean up.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)

	cfg.Hurry = cut.Done()
	return dev.Run(ctx, cfg)
}

// goRunPath matches the directory in Go's build cache in which `go run` keeps a program.
var goRunPath = regexp.MustCompile(`^[0-9a-f]{64}-d$`)

// programName returns the command with which the user can call this program from another shell. The file that
// `go run` executes is temporary or in Go's cache, so that is not returned.
func programName(executable, called string) string {
	if strings.Contains(executable, "go-build") || goRunPath.MatchString(filepath.Base(filepath.Dir(executable))) {
		return "go run ./cmd/goversed"
	}
	return called
}

// terminalSize reports whether w is a terminal in which lines can be redrawn, and returns a function that reads its
// size.
func terminalSize(w io.Writer, kind string) (size func() (columns, rows int), ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || kind == "dumb" || !isatty.IsTerminal(f.Fd()) {
		return nil, false
	}
	return func() (int, int) {
		columns, rows, err := term.GetSize(int(f.Fd()))
		if err != nil || columns <= 0 || rows <= 0 {
			return 80, 24
		}
		return columns, rows
	}, true
}
