package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/supervise"
)

func newLock() *cobra.Command {
	f := &superviseFlags{}
	var timeout secondsFlag
	var nonblock, shared bool
	busy := supervise.ExitBusy
	cmd := &cobra.Command{
		Use:   "lock NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lock",
		Long: `Wait until this process holds the lock NAME, run COMMAND, and release the lock when it
ends, on whichever host others want it: flock(1) for a whole cluster. Who came first gets it
first. The exit code is that of COMMAND.

When the lock is lost while COMMAND runs, COMMAND is ended, and goversed exits with 123.
` + guardedHelp + `
Exit codes: that of COMMAND, or 128 + n if signal n ended it or the wait for the lock; 123 the
lock was lost, 124 another held it (--nonblock, --timeout), 125 goversed failed, was refused or
got no answer of etcd in time, 126 COMMAND cannot be run, 127 it is not there, 2 the command line
is wrong.`,
		Example: `  goversed lock migrate --etcd 127.0.0.1:2379 -- ./migrate-database
  GOVERSE_ETCD=a:2379,b:2379 goversed lock -n nightly -- ./backup.sh || echo "another host does it, or it failed"
  goversed lock -w 30 cache --shared --etcd a:2379 -- ./read-cache`,
		DisableFlagsInUseLine: true,
		Args:                  requireCommand(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() == 0 {
				return cli.WrapUsage(cmd.CommandPath(),
					errors.New("the NAME of the lock is missing: write it before --, as in lock "+
						"nightly -- ./backup"))
			}
			switch {
			case timeout < 0 || cmd.Flags().Changed("timeout") && timeout == 0:
				return cli.WrapUsage(cmd.CommandPath(), fmt.Errorf("--timeout %v: give more than 0; leave it out to wait forever, "+
					"or use --nonblock", time.Duration(timeout)))
			case busy < 1 || busy > 255:
				return cli.WrapUsage(cmd.CommandPath(), fmt.Errorf("--conflict-exit-code %d: give a number from 1 to 255", busy))
			case args[0] == "":
				return cli.WrapUsage(cmd.CommandPath(), errors.New("the NAME of the lock is empty: give one, for example nightly"))
			}
			return f.superviseCommand(cmd, supervise.Config{Lock: args[0], Shared: shared, Try: nonblock,
				Timeout:  time.Duration(timeout),
				BusyCode: busy, Command: args[1:]})
		},
	}
	fs := cmd.Flags()
	fs.VarP(&timeout, "timeout", "w", "how long to wait for the lock; 30 is 30s (default: forever; with --nonblock 5s "+
		"for etcd to answer)")
	fs.Lookup("timeout").DefValue = ""
	fs.BoolVarP(&nonblock, "nonblock", "n", false, "do not wait: give up if another holds the lock")
	fs.BoolVarP(&shared, "shared", "s", false, "share the lock with others who share it")
	fs.IntVarP(&busy, "conflict-exit-code", "E", busy, "exit code where another held the lock")
	f.register(cmd, "warn")
	return reportMissingDash(cmd, 1)
}
