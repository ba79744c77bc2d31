package reaper

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Run starts this program again as a child and collects whatever ends, until that child has: where this is process 1.
// Elsewhere, or where the program cannot be started again, it returns at once and done is false. Call it first of
// all, before there are other children.
func Run() (status int, done bool) {
	if os.Getpid() != 1 {
		return 0, false
	}
	return supervise("/proc/self/exe", os.Args, os.Environ())
}

// supervise starts a program, passes signals on to it and collects all children of this process until the program
// has ended. One goroutine does both, so that no signal reaches a process that got the number of one collected.
func supervise(path string, args, env []string) (status int, done bool) {
	ended, signals := make(chan os.Signal, 1), make(chan os.Signal, 64)
	signal.Notify(ended, unix.SIGCHLD) // one is enough: it stands for all that have ended
	signal.Notify(signals, passedOn()...)
	defer signal.Stop(ended)
	defer signal.Stop(signals)
	program, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2},
		Sys: attributes()})
	if err != nil {
		return 0, false
	}
	for {
		select {
		case s := <-signals:
			_ = syscall.Kill(program, s.(syscall.Signal)) // it may have ended, and is collected next
		case <-ended:
			if status, done := collect(program); done {
				return status, true
			}
		}
	}
}

// collect collects the children that have ended, and returns the program's exit status if it is one of them.
func collect(program int) (status int, done bool) {
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

// attributes puts the program into a process group of its own; in the foreground, where this one is.
func attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil && group == unix.Getpgrp() {
		attr.Foreground, attr.Ctty = true, 0
	}
	return attr
}

// passedOn lists the signals that others send. One that is ignored stays so, for the program too.
func passedOn() (all []os.Signal) {
	for s := unix.Signal(1); s <= 64; s++ {
		switch s {
		case unix.SIGKILL, unix.SIGSTOP, unix.SIGCHLD, // cannot be caught; or is for collect
			unix.SIGURG, unix.SIGPIPE, unix.SIGTTIN, unix.SIGTTOU, // this process's own
			unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS, // faults
			32, 33: // the C library's
			continue
		}
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}
