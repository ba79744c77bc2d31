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
		Long: `Wait until this process holds the lock NAME, run COMMAND, and release the lock when COMMAND ends.
This is flock(1) for a whole cluster: processes on any host get the lock in the order of their
requests.

If COMMAND ends by itself, goversed exits with the exit code of COMMAND. If the lock is lost while
COMMAND runs, goversed ends COMMAND and exits with 123.
` + guardedHelp + `
Exit codes: that of COMMAND, or 128 + n if signal n ended COMMAND or the wait for the lock.
123 the lock was lost, 124 another process held the lock (--nonblock, --timeout), 125 goversed
failed, was refused or got no answer in time, 126 COMMAND cannot be run, 127 COMMAND does not exist,
2 the command line is wrong.`,
		Example: `  goversed lock migrate --etcd 127.0.0.1:2379 -- ./migrate-database
  GOVERSE_ETCD=a:2379,b:2379 goversed lock -n nightly -- ./backup.sh || echo "another host runs it, or it failed"
  goversed lock -w 30 cache --shared --etcd a:2379 -- ./read-cache
  GOVERSE_POSTGRES=postgres://host/db goversed lock nightly -- ./backup.sh`,
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
	fs.VarP(&timeout, "timeout", "w", "longest wait for the lock; 30 means 30s (default: no limit; with "+
		"--nonblock, 5s for an answer)")
	fs.Lookup("timeout").DefValue = ""
	fs.BoolVarP(&nonblock, "nonblock", "n", false, "do not wait: exit if another process holds the lock")
	fs.BoolVarP(&shared, "shared", "s", false, "hold the lock together with other shared holders")
	fs.IntVarP(&busy, "conflict-exit-code", "E", busy, "exit code if another process held the lock")
	f.register(cmd, "warn")
	return reportMissingDash(cmd, 1)
}
