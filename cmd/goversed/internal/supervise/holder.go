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
	r       *runner
	times   ending.Times
	guard   *exec.Cmd
	ended   chan struct{} // closed when the guard is reaped
	orders  *os.File
	reports chan report // closed when the guard is gone and all its reports are read

	others    []process // children of this process before it started the guard
	begun     bool      // the guard has received its spec
	pid       int       // of the command; 0: unknown
	until     ending.Instant
	ordered   bool    // the guard has the order to end the command
	late      bool    // the guard was killed because it did not end the command in time
	unguarded bool    // the guard is gone
	stuck     bool    // the log says that the command does not end
	end       report  // the last report; Gone: nothing of the command is left
	terminal  bool    // the command gets the terminal
	reason    error   // why the term or lock was lost, or might be
	request   request // for the command's end, by signals to this process
	hurried   bool    // the guard has the order to kill the command
	looked    ending.Instant
	stood     time.Duration // the longest time between two rounds of watch
	// unresponsive fires when unresponsiveAfter is over; nil means that no signal has asked for the end yet.
	unresponsive <-chan time.Time
}

// request records the signals that asked for the command's end.
type request struct {
	asked ending.Instant // when the first one arrived; zero: none did
	again bool           // another one arrived at least cli.SecondAfter later
}

// heard returns the request after another signal that asks for the end.
func (w request) heard(at ending.Instant) request {
	if w.asked == (ending.Instant{}) {
		return request{asked: at}
	}
	w.again = w.again || time.Duration(at.Boot-w.asked.Boot) >= cli.SecondAfter
	return w
}

// attend runs the command while h is held, and returns when nothing of it is left. An error means that the
// command was not started.
func (r *runner) attend(h *held) (*job, error) {
	end := r.claim.begin()
	defer end()
	j := &job{r: r, times: ending.Times{Stop: r.cfg.Stop, Margin: margin(h.session.TTL()),
		GracePeriod: r.cfg.GracePeriod}}
	if j.ready(h) {
		if err := j.start(h); err != nil {
			return nil, err
		}
	} else {
		j.end = lostBefore
	}
	j.watch(h)
	j.reason = reasonFor(context.Cause(h.ctx), j.stood, h.session.TTL(), j.late)
	return j, nil
}

// lostBefore is the report about a command that never started.
var lostBefore = report{Gone: true, Why: ending.Ordered}

// ready waits until there is enough time before the deadline to start. It returns false if h is lost.
func (j *job) ready(h *held) bool {
	for h.ctx.Err() == nil {
		if h.session.Left() > j.times.Stop+2*j.times.Margin {
			return true
		}
		h.session.Check()
		select {
		case <-time.After(j.times.Margin):
		case <-h.ctx.Done():
		}
	}
	return false
}

// deadline returns the current deadline on clocks that the guard reads, too. It reads these clocks first, so
// that the result errs on the early side. It returns false if h is lost or its deadline is over.
func deadline(h *held) (ending.Instant, bool) {
	at := now()
	left := h.session.Left()
	return at.Add(left), left > 0 && h.ctx.Err() == nil
}

func (j *job) launch() error {
	reports, tell, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	hear, orders, err := os.Pipe()
	if err != nil {
		_ = errors.Join(reports.Close(), tell.Close()) // unused
		return fmt.Errorf("make a pipe: %w", err)
	}
	j.guard = exec.Command(self(), j.r.cfg.Guard...)
	j.guard.Args[0], j.guard.Env = os.Args[0], j.r.cfg.GuardEnv
	j.guard.Stdin, j.guard.Stdout, j.guard.Stderr = os.Stdin, os.Stdout, os.Stderr
	j.guard.ExtraFiles = []*os.File{hear, tell}
	// Signals to this process's group, such as that of Ctrl-C, must not reach the guard.
	j.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Children that exist now were inherited through exec, or adopted as the first process of a container. They
	// are not the command's.
	j.others, _ = orphans() // processes hidden from this user are not killed either
	err = j.guard.Start()
	_ = errors.Join(hear.Close(), tell.Close()) // the guard has its own copies
	if err != nil {
		_ = errors.Join(orders.Close(), reports.Close()) // unused
		return fmt.Errorf("start the guard: %w", err)
	}
	j.orders, j.reports, j.ended = orders, make(chan report), make(chan struct{})
	go func() {
		defer close(j.ended)
		_ = j.guard.Wait() // its exit status does not matter
	}()
	go func() { // ends when the guard is gone, which dismiss ensures
		defer close(j.reports)
		defer reports.Close() // it was only read
		for in := json.NewDecoder(reports); ; {
			var said report
			if in.Decode(&said) != nil {
				return
			}
			j.reports <- said
		}
	}()
	return nil
}

// start starts the guard and sends it the spec of the command.
func (j *job) start(h *held) error {
	if err := j.launch(); err != nil {
		return err
	}
	until, ok := deadline(h)
	if !ok {
		j.end = lostBefore
		return nil
	}
	j.until, j.terminal = until, holdsTerminal()
	if !j.send(spec{Path: []byte(j.r.path), Args: raw(j.r.cfg.Command), Env: raw(j.r.environment(h)), Times: j.times,
		Until:  j.until,
		Cgroup: []byte(j.r.cgroup), Terminal: j.terminal, Lease: int64(h.session.ID())}, specTimeout) {
		j.dismiss()
		return errors.New("the guard of the command did not start: look for what ends processes of this user")
	}
	j.begun = true
	return nil
}

func (r *runner) environment(h *held) []string {
	kind, name := r.cfg.kind()
	return append(r.cfg.Env[:len(r.cfg.Env):len(r.cfg.Env)], "GOVERSE_"+strings.ToUpper(kind)+"="+name,
		"GOVERSE_TOKEN="+strconv.FormatInt(h.token, 10), "GOVERSE_KEY="+h.key,
		keysEnv+"="+strings.TrimSpace(lookup(r.cfg.Env, keysEnv)+" "+h.key))
}

// send sends the guard a message. It returns false if the guard is gone or does not read in time.
func (j *job) send(what any, within time.Duration) bool {
	line, err := json.Marshal(what)
	if err != nil {
		panic("supervise: " + err.Error()) // the messages are plain structs
	}
	_ = j.orders.SetWriteDeadline(time.Now().Add(within)) // pipes support deadlines
	_, err = j.orders.Write(line)
	return err == nil
}

// watch returns when nothing of the command is left.
func (j *job) watch(h *held) {
	again := time.NewTicker(h.session.TTL() / 40)
	defer again.Stop()
	lost := h.ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at := now()
		if j.looked != (ending.Instant{}) {
			j.stood = max(j.stood, time.Duration(at.Boot-j.looked.Boot))
		}
		j.looked = at
		step := j.times.Holder(ending.Hold{Now: at, Until: j.until, Lost: h.ctx.Err() != nil, Ordered: j.ordered,
			Asked: j.request.asked, Again: j.request.again, Hurried: j.hurried, Unguarded: j.unguarded, Gone: j.end.Gone})
		switch step.Do {
		case ending.Leave:
			j.takeTerminal()
			return
		case ending.Ask:
			j.ordered = j.send(order{End: true}, orderTimeout)
		case ending.Hurry:
			if j.hurried = j.send(order{Hurry: true}, orderTimeout); j.hurried {
				j.r.sayHurry(j.request)
			}
		case ending.Kill:
			j.kill()
		}
		timer.Reset(step.Within)
		select {
		case <-timer.C:
		case <-again.C:
			if until, ok := deadline(h); ok && j.send(order{Until: &until}, orderTimeout) {
				j.until = until
			}
		case <-lost:
			lost = nil // handle it once
		case s := <-j.r.signals:
			j.pass(s)
		case <-j.unresponsive:
			if !j.ordered && !j.hurried && !j.unguarded && !j.end.Gone {
				j.r.sayUnresponsive()
			}
		case said, ok := <-j.reports:
			j.hear(said, ok)
		}
	}
}

// hear handles a report, or the end of the reports if ok is false.
func (j *job) hear(said report, ok bool) {
	switch {
	case !ok:
		<-j.ended
		j.reports, j.unguarded = nil, true
		if !j.end.Gone && !j.late {
			j.r.cfg.Logger.Error("the guard of the command is gone, ending the command")
		}
	case said.Gone:
		j.end = said
	default:
		j.pid = said.Pid
		j.giveTerminal()
	}
}

// kill kills the guard. Once the guard is gone and all its reports are read, kill ends the processes it left.
//
// The command's group is never killed while the guard lives, because the group may be gone and its number in
// use again. Processes that a dead guard leaves are orphans that this process adopts, so their numbers stay
// taken until it reaps them.
func (j *job) kill() {
	if !j.unguarded {
		j.late = true
		_ = j.guard.Process.Kill() // an error means that it has ended
		return
	}
	g := group{pid: j.pid, cgroup: j.r.cgroup, others: j.others}
	g.kill()
	if g.reap(); g.gone() {
		j.end = report{Gone: true, Code: exitSignal + int(syscall.SIGKILL)}
		if j.ordered || j.late {
			j.end.Why = ending.Deadline
		}
	} else if !j.stuck && now().Until(j.until) < -stuckAfter {
		j.stuck = true
		j.r.cfg.Logger.Error("the command does not end although it was killed: what is held is not released before it is "+
			"gone", "group", j.pid)
	}
}

// pass passes a signal on to the command's group.
func (j *job) pass(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	passed, first := j.send(order{Signal: int(sig)}, orderTimeout), false
	if sig == syscall.SIGINT || sig == syscall.SIGTERM {
		if first = !j.r.requested; first {
			j.unresponsive = time.After(unresponsiveAfter)
		}
		j.r.requested = true
		j.request = j.request.heard(now())
	}
	if first {
		j.r.cfg.Logger.Info("passing the signal on to the command, and waiting for its end; another one kills it",
			"signal", sig.String())
	}
	if !passed && !j.unguarded {
		j.r.cfg.Logger.Warn("could not pass a signal to the command", "signal", sig.String())
	}
}

// dismiss ends the guard and joins it. The lock or leadership must be released before.
func (j *job) dismiss() {
	if j.guard == nil {
		return
	}
	if j.begun && !j.send(order{Done: true}, doneTimeout) {
		// It guards nothing any more. At the end of its orders it would revoke the lease, with which this
		// process may lead again.
		_ = j.guard.Process.Kill()
		<-j.ended
	}
	_ = j.orders.Close() // nothing is buffered
	for timeout := time.After(dismissTimeout); ; {
		select {
		case _, ok := <-j.reports:
			if !ok {
				j.reports = nil
			}
		case <-j.ended:
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
