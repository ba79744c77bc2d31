//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverse/goverse/cmd/goversed/internal/supervise/ending"
	"github.com/goverse/goverse/internal/child"
)

// The file descriptors that the holder passes to the guard.
const ordersFile, reportsFile = 3, 4

// ErrNoHolder is returned when the guard was not started by Run.
var ErrNoHolder = errors.New("this is what goversed exec and goversed lock run beside the command: run these")

// Guard runs the guard of one command. It blocks until nothing of the command is left and the holder has
// released the election or lock. If the holder is gone instead, Guard calls free with the session to end, and
// returns free's error.
func Guard(free func(session int64) error) error {
	for _, fd := range []int{ordersFile, reportsFile} {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			return ErrNoHolder
		}
		unix.CloseOnExec(fd) // not for the command: their end shows that a process is gone
	}
	// No signal sent to a group, or by hand, ends the guard before the command. The signals are caught, not
	// ignored, because the command would inherit ignored ones.
	caught := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGPIPE,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
		if !signal.Ignored(sig) {
			signal.Notify(caught, sig)
		}
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	if err := adoptOrphans(); err != nil {
		return err
	}
	g := &guard{children: children, caught: caught, orders: make(chan guardOrder),
		reports: os.NewFile(reportsFile, "reports")}
	in := json.NewDecoder(os.NewFile(ordersFile, "orders"))
	var s guardSpec
	if in.Decode(&s) != nil {
		return nil // the holder ended before anything began
	}
	go func() { // lives as long as the process
		defer close(g.orders)
		for {
			var o guardOrder
			if in.Decode(&o) != nil {
				return
			}
			g.orders <- o
		}
	}()
	return g.run(s, free)
}

// guard is the parent of one command.
type guard struct {
	processGroup
	spec     guardSpec
	children <-chan os.Signal // SIGCHLD
	caught   <-chan os.Signal // signals that the guard ignores
	orders   chan guardOrder  // closed when the holder is gone; nil once that is handled
	reports  *os.File

	view   ending.GuardView
	done   bool // the holder has released
	status syscall.WaitStatus
}

func (g *guard) run(s guardSpec, free func(session int64) error) error {
	g.spec, g.cgroup, g.view.Until = s, string(s.Cgroup), s.Until
	g.view.Now = now()
	if step := s.Times.NextGuardStep(g.view); step.Action != ending.DoNothing {
		g.sendReport(guardReport{Gone: true, Why: step.Reason}) // starting the guard took too long
	} else if err := g.startCommand(); err != nil {
		code, why := startFailure(string(s.Args[0]), err)
		g.sendReport(guardReport{Gone: true, Refused: []byte(why), Code: code})
	} else {
		g.sendReport(guardReport{Pid: g.pid})
		g.watchCommand()
		g.sendReport(guardReport{Gone: true, Code: exitCode(g.status), Why: g.view.Reason})
	}
	for !g.done && g.orders != nil {
		select {
		case o, ok := <-g.orders:
			g.handleOrder(o, ok)
		case <-g.caught:
		}
	}
	if g.done {
		return nil
	}
	if g.cgroup != "" {
		removeCgroup(g.cgroup)
	}
	return free(s.Session)
}

// startCommand starts the command from a thread that lives as long as this process. On Linux, the command dies with
// it.
func (g *guard) startCommand() error {
	cmd := &exec.Cmd{Path: string(g.spec.Path), Args: decodeStrings(g.spec.Args), Env: decodeStrings(g.spec.Env),
		Stdin:  os.Stdin,
		Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{}}
	if g.cgroup != "" {
		dir, err := os.Open(g.cgroup)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoCgroup, err)
		}
		defer dir.Close() // it was only read
		intoCgroup(cmd.SysProcAttr, dir)
	}
	if err := child.NewStarter().Start(cmd); err != nil {
		return err
	}
	g.pid = cmd.Process.Pid // reapChildren reaps it, with all others
	return nil
}

// watchCommand returns when nothing of the command is left.
func (g *guard) watchCommand() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		g.reapChildren()
		g.view.Gone = g.view.Exited && g.allGone()
		g.view.Now = now()
		step := g.spec.Times.NextGuardStep(g.view)
		g.view.Reason = step.Reason
		switch step.Action {
		case ending.LeaveGuard:
			return
		case ending.SendTerm:
			g.view.Asked = g.view.Now
			g.terminate()
		case ending.SendKill:
			g.kill()
		}
		timer.Reset(step.CheckWithin)
		select {
		case <-timer.C:
		case <-g.children:
		case <-g.caught:
		case o, ok := <-g.orders:
			g.handleOrder(o, ok)
		}
	}
}

func (g *guard) handleOrder(o guardOrder, ok bool) {
	switch {
	case !ok:
		g.orders, g.view.HolderGone = nil, true
	case o.Until != nil:
		g.view.Until = *o.Until
	case o.End:
		g.view.EndOrdered = true
	case o.Hurry:
		g.view.KillOrdered = true
	case o.Done:
		g.done = true
	case o.Signal != 0 && !g.view.Gone:
		g.signal(syscall.Signal(o.Signal))
	}
}

// reapChildren reaps all children that have ended: the command, and orphans of its group.
func (g *guard) reapChildren() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil || pid <= 0:
			return
		case pid != g.pid:
		case !status.Stopped():
			g.view.Exited, g.status = true, status
		case g.spec.Terminal && status.StopSignal() == syscall.SIGTSTP:
			// Ctrl-Z: a stopped command would keep the lock, and the user could not continue it.
			g.signal(syscall.SIGCONT)
		}
	}
}

func (g *guard) sendReport(r guardReport) {
	// An error means that the holder is gone; no process needs the report then.
	_ = json.NewEncoder(g.reports).Encode(r)
}

func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}

// startFailure returns the exit code and message of a command that cannot be run, as shells do.
func startFailure(name string, err error) (code int, why string) {
	switch {
	case errors.Is(err, ErrNoCgroup):
		return ExitFailed, err.Error()
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return ExitNotFound, fmt.Sprintf("%s: there is no such command (%v)", name, err)
	}
	return ExitRefused, fmt.Sprintf("%s cannot be run: %v", name, err)
}

// Free returns a function for Guard that ends a session, by its number, by calling end once: it revokes a lease, or
// ends a session in PostgreSQL. End may retry until its context ends.
func Free(end func(ctx context.Context, session int64) error) func(session int64) error {
	return func(session int64) error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*requestTimeout)
		defer cancel()
		if err := end(ctx, session); err != nil {
			return fmt.Errorf("goversed was killed; its command has ended, but its session stays until it runs out: %w", err)
		}
		return nil
	}
}
