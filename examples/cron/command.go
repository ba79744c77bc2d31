package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

var (
	// errNotStarted: nothing was done.
	errNotStarted = errors.New("the command was not started")
	// errEnded: the command may have done a part of its work.
	errEnded = errors.New("the command was ended, because this copy leads no more")
)

// killAfter is how long a command that was asked to end has for it.
const killAfter = time.Second

// run is one run of the command, from its start to its end. It is asked to end when ctx ends:
// the error matches errEnded, unless it says by its exit status that it did its work. Any
// other error that does not match errNotStarted is that of the command itself.
func (j job) run(ctx context.Context, due time.Time, token int64) error {
	// On Linux the command is killed when the thread that started it ends, so that it does not
	// outlive a cron that was killed: the thread has to be there for as long as the command is.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, j.command[0], j.command[1:]...)
	cmd.SysProcAttr = attributes()
	ended := false
	cmd.Cancel = func() error {
		ended = true
		return end(cmd.Process)
	}
	cmd.WaitDelay = killAfter
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CRON_DUE="+due.UTC().Format(time.RFC3339), fmt.Sprintf("CRON_TOKEN=%d", token))
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", errNotStarted, err)
	}
	err := cmd.Wait() // which waits for Cancel
	switch state := cmd.ProcessState; {
	case err == nil, state != nil && state.Success():
		return nil
	case ended:
		return fmt.Errorf("%w: %w", errEnded, err)
	default:
		return err
	}
}
