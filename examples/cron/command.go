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
	// errNotStarted reports that the command did nothing.
	errNotStarted = errors.New("the command was not started")
	// errEnded reports that the command was ended and may have done part of its work.
	errEnded = errors.New("the command was ended, because this copy leads no more")
)

// killAfter is the time a command has to end after SIGTERM, before it is killed.
const killAfter = time.Second

// runCommand runs the command and waits for its end. When ctx ends, runCommand asks the command to end; the error
// then matches errEnded, unless the command still exits with status 0. Any other error that does not match
// errNotStarted is the command's own.
func (j job) runCommand(ctx context.Context, due time.Time, token int64) error {
	// On Linux the command is killed when the thread that started it ends, so that it does not outlive a killed
	// cron. The thread must therefore exist for as long as the command does.
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
	err := cmd.Wait() // waits for Cancel, too
	switch state := cmd.ProcessState; {
	case err == nil, state != nil && state.Success():
		return nil
	case ended:
		return fmt.Errorf("%w: %w", errEnded, err)
	default:
		return err
	}
}
