//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// holdsTerminal reports whether this process's group is in the foreground of the terminal, on both standard
// input and output. In a pipe it returns false, because the other programs of the pipe would lose the terminal.
func holdsTerminal() bool {
	for _, fd := range []int{0, 1} {
		foreground, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err != nil || foreground != syscall.Getpgrp() {
			return false
		}
	}
	return true
}

// giveTerminal puts the command's group in the foreground, so that the command can read from the terminal and
// receives Ctrl-C.
func (j *job) giveTerminal() {
	if !j.terminal {
		return
	}
	if unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, j.pid) == nil {
		j.sendMessage(guardOrder{Signal: int(syscall.SIGCONT)}, orderTimeout) // it may have read too early and been stopped
	}
}

// takeTerminal puts this process's group in the foreground again.
func (j *job) takeTerminal() {
	if !j.terminal {
		return
	}
	signal.Ignore(syscall.SIGTTOU) // it would stop this process, which is in the background
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, syscall.Getpgrp()) // fails if the terminal was hung up
}

// passTerminalSignal sends the signal that ended the command, if it came from the terminal, to this process's group. A
// script that runs goversed would have received it had the terminal stayed with its group.
func (j *job) passTerminalSignal() {
	sig := syscall.Signal(j.lastReport.Code - exitSignal)
	if !j.terminal || sig != syscall.SIGINT && sig != syscall.SIGQUIT {
		return
	}
	signal.Ignore(sig)
	_ = syscall.Kill(0, sig) // to the group of this process
}

// Signals returns the signals that goversed exec and lock pass on. It leaves out those that the parent of this
// process set to be ignored.
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
