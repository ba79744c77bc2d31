//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// holdsTerminal reports whether this process's group is the one that the terminal serves, and
// it is not one of several in a pipe: these would lose the terminal with it.
func holdsTerminal() bool {
	for _, fd := range []int{0, 1} {
		foreground, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err != nil || foreground != syscall.Getpgrp() {
			return false
		}
	}
	return true
}

// giveTerminal lets the command's group have the terminal: it can read from it, and Ctrl-C is
// the command's.
func (j *job) giveTerminal() {
	if !j.terminal {
		return
	}
	if unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, j.pid) == nil {
		j.send(order{Signal: int(syscall.SIGCONT)}, orderTimeout) // it may have read too early, and been stopped for that
	}
}

// takeTerminal takes it back.
func (j *job) takeTerminal() {
	if !j.terminal {
		return
	}
	signal.Ignore(syscall.SIGTTOU) // or it would stop this process, which is in the background
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, syscall.Getpgrp()) // it was hung up, say
}

// passOn has the Ctrl-C that ended the command reach this process's group: a script that this
// is a line of would have got it, had the terminal been left to it.
func (j *job) passOn() {
	sig := syscall.Signal(j.end.Code - exitSignal)
	if !j.terminal || sig != syscall.SIGINT && sig != syscall.SIGQUIT {
		return
	}
	signal.Ignore(sig)
	_ = syscall.Kill(0, sig) // to the group of this process
}

// Signals are those that goversed exec and lock pass on, without those that the process that started
// this process wants ignored.
func Signals() []os.Signal {
	var out []os.Signal
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1,
		syscall.SIGUSR2} {
		if !signal.Ignored(sig) {
			out = append(out, sig)
		}
	}
	return out
}
