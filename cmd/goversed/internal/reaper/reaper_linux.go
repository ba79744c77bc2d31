package reaper

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Run starts this program again as a child if this is process 1, and reaps all children until that one has
// ended. In any other process, or if the program cannot be started again, it returns immediately with done set
// to false. Call it first in main, before there are other children.
func Run() (status int, done bool) {
	if os.Getpid() != 1 {
		return 0, false
	}
	return runAndReap("/proc/self/exe", os.Args, os.Environ())
}

// runAndReap starts a program, passes signals on to it, and reaps all children of this process until the program
// has ended. One goroutine does both, so that no signal is sent to a reaped process: its number may be in use
// again.
func runAndReap(path string, args, env []string) (status int, done bool) {
	ended, signals := make(chan os.Signal, 1), make(chan os.Signal, 64)
	signal.Notify(ended, unix.SIGCHLD) // one is enough for any number of ended children
	signal.Notify(signals, forwardedSignals()...)
	defer signal.Stop(ended)
	defer signal.Stop(signals)
	program, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2},
		Sys: processAttributes()})
	if err != nil {
		return 0, false
	}
	for {
		select {
		case s := <-signals:
			_ = syscall.Kill(program, s.(syscall.Signal)) // an error means that it has ended
		case <-ended:
			if status, done := reapChildren(program); done {
				return status, true
			}
		}
	}
}

// reapChildren reaps the children that have ended. It returns the program's exit status if the program is one of
// them.
func reapChildren(program int) (status int, done bool) {
	for {
		var ws unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil); {
		case errors.Is(err, unix.EINTR):
		case err != nil || pid == 0:
			return 0, false
		case pid == program && ws.Signaled():
			return 128 + int(ws.Signal()), true
		case pid == program:
			return ws.ExitStatus(), true
		}
	}
}

// processAttributes puts the program into a process group of its own, in the foreground if this process is.
func processAttributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil && group == unix.Getpgrp() {
		attr.Foreground, attr.Ctty = true, 0
	}
	return attr
}

// forwardedSignals lists the signals that other processes send. An ignored signal stays ignored, also in the program.
func forwardedSignals() (all []os.Signal) {
	for s := unix.Signal(1); s <= 64; s++ {
		switch s {
		case unix.SIGKILL, unix.SIGSTOP, unix.SIGCHLD, // cannot be caught, or is handled by reapChildren
			unix.SIGURG, unix.SIGPIPE, unix.SIGTTIN, unix.SIGTTOU, // meant for this process
			unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS, // faults
			32, 33: // used by the C library
			continue
		}
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}
