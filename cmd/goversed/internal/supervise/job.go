//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/supervise/ending"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// orderTimeout limits the wait for a guard that does not read.
	orderTimeout = 20 * time.Millisecond
	// specTimeout limits the wait for a guard to start and read its spec.
	specTimeout = 10 * time.Second
	// stuckAfter is the time after the deadline at which a log line reports that the command still exists.
	stuckAfter = time.Second
	// doneTimeout limits the wait for a guard to read that it can leave. A guard that does not read it would
	// take the end of the pipe for the end of the holder.
	doneTimeout = 3 * time.Second
	// dismissTimeout limits the wait for a guard that has nothing left to do.
	dismissTimeout = time.Second
	// unresponsiveAfter is the time after the first signal that asks for the end at which a log line reports
	// that the command still runs, and how to kill it.
	unresponsiveAfter = 2 * time.Second
)

// job is one run of the command under its guard, as seen by the holder.
type job struct {
	runner      *runner
	times       ending.Times
	guard       *exec.Cmd
	guardReaped chan struct{} // closed when the guard is reaped
	orders      *os.File
	reports     chan guardReport // closed when the guard is gone and all its reports are read

	earlierChildren []process // children of this process before it started the guard
	begun           bool      // the guard has received its spec
	pid             int       // of the command; 0: unknown
	sentDeadline    ending.Instant
	endOrdered      bool        // the guard has the order to end the command
	guardKilled     bool        // the guard was killed because it did not end the command in time
	unguarded       bool        // the guard is gone
	stuck           bool        // the log says that the command does not end
	lastReport      guardReport // the last report; Gone: nothing of the command is left
	terminal        bool        // the command gets the terminal
	lossReason      error       // why the term or lock was lost, or might be
	request         endRequest  // for the command's end, by signals to this process
	killOrdered     bool        // the guard has the order to kill the command
	lastWatched     ending.Instant
	longestPause    time.Duration // the longest time between two rounds of watchGuard
	// unresponsiveTimer fires when unresponsiveAfter is over; nil means that no signal has asked for the end yet.
	unresponsiveTimer <-chan time.Time
}

// endRequest records the signals that asked for the command's end.
type endRequest struct {
	asked ending.Instant // when the first one arrived; zero: none did
	again bool           // another one arrived at least cli.SecondSignalAfter later
}

// addSignal returns the request after another signal that asks for the end.
func (w endRequest) addSignal(at ending.Instant) endRequest {
	if w.asked == (ending.Instant{}) {
		return endRequest{asked: at}
	}
	w.again = w.again || time.Duration(at.Boot-w.asked.Boot) >= cli.SecondSignalAfter
	return w
}

// runCommand runs the command while h is held, and returns when nothing of it is left. An error means that the
// command was not started.
func (r *runner) runCommand(h *heldClaim) (*job, error) {
	end := r.claim.beginCommand()
	defer end()
	j := &job{runner: r, times: ending.Times{Stop: r.cfg.Stop, Margin: killMargin(h.session.TTL()),
		GracePeriod: r.cfg.GracePeriod}}
	if j.awaitStartTime(h) {
		if err := j.startGuard(h); err != nil {
			return nil, err
		}
	} else {
		j.lastReport = neverStarted
	}
	j.watchGuard(h)
	j.lossReason = lossReason(context.Cause(h.ctx), j.longestPause, h.session.TTL(), j.guardKilled)
	return j, nil
}

// neverStarted is the report about a command that never started.
var neverStarted = guardReport{Gone: true, Why: ending.EndOrdered}

// awaitStartTime waits until there is enough time before the deadline to start. It returns false if h is lost.
func (j *job) awaitStartTime(h *heldClaim) bool {
	for h.ctx.Err() == nil {
		if h.session.TimeLeft() > j.times.Stop+2*j.times.Margin {
			return true
		}
		h.session.RequestRenewal()
		wait.For(h.ctx, j.times.Margin)
	}
	return false
}

// guardDeadline returns the current deadline on clocks that the guard reads, too. It reads these clocks first, so
// that the result errs on the early side. It returns false if h is lost or its deadline is over.
func guardDeadline(h *heldClaim) (ending.Instant, bool) {
	at := now()
	left := h.session.TimeLeft()
	return at.Add(left), left > 0 && h.ctx.Err() == nil
}

func (j *job) launchGuard() error {
	reports, tell, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	hear, orders, err := os.Pipe()
	if err != nil {
		_ = errors.Join(reports.Close(), tell.Close()) // unused
		return fmt.Errorf("make a pipe: %w", err)
	}
	j.guard = exec.Command(self(), j.runner.cfg.Guard...)
	j.guard.Args[0], j.guard.Env = os.Args[0], j.runner.cfg.GuardEnv
	j.guard.Stdin, j.guard.Stdout, j.guard.Stderr = os.Stdin, os.Stdout, os.Stderr
	j.guard.ExtraFiles = []*os.File{hear, tell}
	// Signals to this process's group, such as that of Ctrl-C, must not reach the guard.
	j.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Children that exist now were inherited through exec, or adopted as the first process of a container. They
	// are not the command's.
	j.earlierChildren, _ = orphans() // processes hidden from this user are not killed either
	err = j.guard.Start()
	_ = errors.Join(hear.Close(), tell.Close()) // the guard has its own copies
	if err != nil {
		_ = errors.Join(orders.Close(), reports.Close()) // unused
		return fmt.Errorf("start the guard: %w", err)
	}
	j.orders, j.reports, j.guardReaped = orders, make(chan guardReport), make(chan struct{})
	go func() {
		defer close(j.guardReaped)
		_ = j.guard.Wait() // its exit status does not matter
	}()
	go func() { // ends when the guard is gone, which dismissGuard ensures
		defer close(j.reports)
		defer reports.Close() // it was only read
		for in := json.NewDecoder(reports); ; {
			var said guardReport
			if in.Decode(&said) != nil {
				return
			}
			j.reports <- said
		}
	}()
	return nil
}

// startGuard starts the guard and sends it the spec of the command.
func (j *job) startGuard(h *heldClaim) error {
	if err := j.launchGuard(); err != nil {
		return err
	}
	until, ok := guardDeadline(h)
	if !ok {
		j.lastReport = neverStarted
		return nil
	}
	j.sentDeadline, j.terminal = until, holdsTerminal()
	if !j.sendMessage(guardSpec{Path: []byte(j.runner.path), Args: encodeStrings(j.runner.cfg.Command),
		Env: encodeStrings(j.runner.commandEnv(h)), Times: j.times,
		Until:  j.sentDeadline,
		Cgroup: []byte(j.runner.cgroup), Terminal: j.terminal, Session: h.session.Number()}, specTimeout) {
		j.dismissGuard()
		return errors.New("the guard of the command did not start: look for what ends processes of this user")
	}
	j.begun = true
	return nil
}

func (r *runner) commandEnv(h *heldClaim) []string {
	kind, name := r.cfg.kindAndName()
	return append(r.cfg.Env[:len(r.cfg.Env):len(r.cfg.Env)], "GOVERSE_"+strings.ToUpper(kind)+"="+name,
		"GOVERSE_TOKEN="+strconv.FormatInt(h.token, 10), "GOVERSE_KEY="+h.key,
		keysEnv+"="+strings.TrimSpace(lookupEnv(r.cfg.Env, keysEnv)+" "+h.keys))
}

// sendMessage sends the guard a message. It returns false if the guard is gone or does not read in time.
func (j *job) sendMessage(what any, within time.Duration) bool {
	line, err := json.Marshal(what)
	if err != nil {
		panic("supervise: " + err.Error()) // the messages are plain structs
	}
	_ = j.orders.SetWriteDeadline(time.Now().Add(within)) // pipes support deadlines
	_, err = j.orders.Write(line)
	return err == nil
}

// watchGuard returns when nothing of the command is left.
func (j *job) watchGuard(h *heldClaim) {
	again := time.NewTicker(h.session.TTL() / 40)
	defer again.Stop()
	lost := h.ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at := now()
		if j.lastWatched != (ending.Instant{}) {
			j.longestPause = max(j.longestPause, time.Duration(at.Boot-j.lastWatched.Boot))
		}
		j.lastWatched = at
		step := j.times.NextHolderStep(ending.HolderView{Now: at, Until: j.sentDeadline, Lost: h.ctx.Err() != nil,
			EndOrdered: j.endOrdered,
			Asked:      j.request.asked, Again: j.request.again, KillOrdered: j.killOrdered, Unguarded: j.unguarded,
			Gone: j.lastReport.Gone})
		switch step.Action {
		case ending.LeaveGuard:
			j.takeTerminal()
			return
		case ending.SendTerm:
			j.endOrdered = j.sendMessage(guardOrder{End: true}, orderTimeout)
		case ending.OrderKill:
			if j.killOrdered = j.sendMessage(guardOrder{Hurry: true}, orderTimeout); j.killOrdered {
				j.runner.logHurry(j.request)
			}
		case ending.SendKill:
			j.killGuard()
		}
		timer.Reset(step.CheckWithin)
		select {
		case <-timer.C:
		case <-again.C:
			if until, ok := guardDeadline(h); ok && j.sendMessage(guardOrder{Until: &until}, orderTimeout) {
				j.sentDeadline = until
			}
		case <-lost:
			lost = nil // handle it once
		case s := <-j.runner.signals:
			j.passSignal(s)
		case <-j.unresponsiveTimer:
			if !j.endOrdered && !j.killOrdered && !j.unguarded && !j.lastReport.Gone {
				j.runner.logUnresponsive()
			}
		case said, ok := <-j.reports:
			j.handleReport(said, ok)
		}
	}
}

// handleReport handles a report, or the end of the reports if ok is false.
func (j *job) handleReport(said guardReport, ok bool) {
	switch {
	case !ok:
		<-j.guardReaped
		j.reports, j.unguarded = nil, true
		if !j.lastReport.Gone && !j.guardKilled {
			j.runner.cfg.Logger.Error("the guard of the command is gone, ending the command")
		}
	case said.Gone:
		j.lastReport = said
	default:
		j.pid = said.Pid
		j.giveTerminal()
	}
}

// killGuard kills the guard. Once the guard is gone and all its reports are read, killGuard ends the processes it left.
//
// The command's group is never killed while the guard lives, because the group may be gone and its number in
// use again. Processes that a dead guard leaves are orphans that this process adopts, so their numbers stay
// taken until it reaps them.
func (j *job) killGuard() {
	if !j.unguarded {
		j.guardKilled = true
		_ = j.guard.Process.Kill() // an error means that it has ended
		return
	}
	g := processGroup{pid: j.pid, cgroup: j.runner.cgroup, earlierChildren: j.earlierChildren}
	g.kill()
	if g.reap(); g.allGone() {
		j.lastReport = guardReport{Gone: true, Code: exitSignal + int(syscall.SIGKILL)}
		if j.endOrdered || j.guardKilled {
			j.lastReport.Why = ending.DeadlineReached
		}
	} else if !j.stuck && now().Until(j.sentDeadline) < -stuckAfter {
		j.stuck = true
		j.runner.cfg.Logger.Error("the command does not end although it was killed: what is held is not released before "+
			"it is gone", "group", j.pid)
	}
}

// passSignal passes a signal on to the command's group.
func (j *job) passSignal(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	passed, first := j.sendMessage(guardOrder{Signal: int(sig)}, orderTimeout), false
	if sig == syscall.SIGINT || sig == syscall.SIGTERM {
		if first = !j.runner.endRequested; first {
			j.unresponsiveTimer = time.After(unresponsiveAfter)
		}
		j.runner.endRequested = true
		j.request = j.request.addSignal(now())
	}
	if first {
		j.runner.cfg.Logger.Info("passing the signal on to the command, and waiting for its end; another one kills it",
			"signal", sig.String())
	}
	if !passed && !j.unguarded {
		j.runner.cfg.Logger.Warn("could not pass a signal to the command", "signal", sig.String())
	}
}

// dismissGuard ends the guard and joins it. The lock or leadership must be released before.
func (j *job) dismissGuard() {
	if j.guard == nil {
		return
	}
	if j.begun && !j.sendMessage(guardOrder{Done: true}, doneTimeout) {
		// It guards nothing any more. At the end of its orders it would end the session, in which this process may
		// lead again.
		_ = j.guard.Process.Kill()
		<-j.guardReaped
	}
	_ = j.orders.Close() // nothing is buffered
	for timeout := time.After(dismissTimeout); ; {
		select {
		case _, ok := <-j.reports:
			if !ok {
				j.reports = nil
			}
		case <-j.guardReaped:
			if j.reports != nil {
				for range j.reports { // until it is closed
				}
			}
			reapAll() // including descendants that left the group
			return
		case <-timeout:
			_ = j.guard.Process.Kill() // it is stopped, for example
		}
	}
}
