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
	// orderTimeout bounds the wait for a guard that does not read.
	orderTimeout = 20 * time.Millisecond
	// specTimeout bounds the wait for a guard to start and take in what it is to run.
	specTimeout = 10 * time.Second
	// stuckAfter the deadline it is said that the command is still there.
	stuckAfter = time.Second
	// doneTimeout bounds the wait for a guard to take in that it can go: not to hear it would
	// be to take the end of the pipe for the end of the holder.
	doneTimeout = 3 * time.Second
	// dismissTimeout bounds the wait for a guard that has nothing to do any more.
	dismissTimeout = time.Second
	// unresponsiveAfter the first signal that asks for the end it is said that the command still runs, and what ends it.
	unresponsiveAfter = 2 * time.Second
)

// job is one run of the command under its guard, as the holder sees it.
type job struct {
	r       *runner
	times   ending.Times
	guard   *exec.Cmd
	ended   chan struct{} // closed when the guard is reaped
	orders  *os.File
	reports chan report // closed when there are no more: the guard is gone

	others    []process // the children of this process before the guard was
	begun     bool      // the guard was given what to run
	pid       int       // of the command; 0: not known
	until     ending.Instant
	ordered   bool    // the guard, that it is to end the command
	late      bool    // and was killed for not having ended the command in time
	unguarded bool    // the guard is gone
	stuck     bool    // it was said that the command does not end
	end       report  // the last one; Gone: nothing of the command is left
	terminal  bool    // it was given to the command
	reason    error   // why what was held might not be held any more
	request   request // of those who signal this process, that the command ends
	hurried   bool    // the guard knows that it is to kill the command
	looked    ending.Instant
	stood     time.Duration // the longest between two looks
	// unresponsive reports that unresponsiveAfter is over; nil: there is no request yet.
	unresponsive <-chan time.Time
}

// request is what signals have said of the command's end.
type request struct {
	asked ending.Instant // zero: nobody asked for it
	again bool           // and asked again
}

// heard is the request after another signal that asks for the end.
func (w request) heard(at ending.Instant) request {
	if w.asked == (ending.Instant{}) {
		return request{asked: at}
	}
	w.again = w.again || time.Duration(at.Boot-w.asked.Boot) >= cli.SecondAfter
	return w
}

// attend runs the command while h is held, and returns when nothing of it is left. An error
// means that it was not started.
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

// lostBefore is the end of a command that never began.
var lostBefore = report{Gone: true, Why: ending.Ordered}

// ready waits until there is enough time before the deadline to begin; false: it is lost.
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

// deadline is the present one on clocks that the guard reads too: these are read first, so
// that it is not too late. False: there is none any more.
func deadline(h *held) (ending.Instant, bool) {
	at := now()
	left := h.session.Left()
	return at.Add(left), left > 0 && h.ctx.Err() == nil
}

// launch starts the guard.
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
	// Neither Ctrl-C nor what else is sent to this process's group is for the guard.
	j.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Inherited by exec, or left to the first process of a container: the command's are none.
	j.others, _ = orphans() // whose kind this user may not see is not killed either
	err = j.guard.Start()
	_ = errors.Join(hear.Close(), tell.Close()) // they are the guard's
	if err != nil {
		_ = errors.Join(orders.Close(), reports.Close()) // unused
		return fmt.Errorf("start the guard: %w", err)
	}
	j.orders, j.reports, j.ended = orders, make(chan report), make(chan struct{})
	go func() {
		defer close(j.ended)
		_ = j.guard.Wait() // how it ended does not matter
	}()
	go func() { // until the guard is gone, which dismiss sees to
		defer close(j.reports)
		defer reports.Close() // nothing was written
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

// start starts the guard and tells it what to run.
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

// environment is the command's.
func (r *runner) environment(h *held) []string {
	kind, name := r.cfg.kind()
	return append(r.cfg.Env[:len(r.cfg.Env):len(r.cfg.Env)], "GOVERSE_"+strings.ToUpper(kind)+"="+name,
		"GOVERSE_TOKEN="+strconv.FormatInt(h.token, 10), "GOVERSE_KEY="+h.key,
		keysEnv+"="+strings.TrimSpace(lookup(r.cfg.Env, keysEnv)+" "+h.key))
}

// send tells the guard something. It fails where the guard is gone or does not read.
func (j *job) send(what any, within time.Duration) bool {
	line, err := json.Marshal(what)
	if err != nil {
		panic("supervise: " + err.Error()) // plain structs
	}
	_ = j.orders.SetWriteDeadline(time.Now().Add(within)) // a pipe has deadlines
	_, err = j.orders.Write(line)
	return err == nil
}

// watch goes on until nothing of the command is left.
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
			lost = nil // once is enough
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

// hear takes a report in, or that there are no more.
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

// kill ends the guard; and when all it said is heard and it is gone, what it left.
//
// The command's group is never killed beside a living guard: it may have gone long ago, and
// its number be another's. What the guard leaves are orphans that this process adopts, so
// that their numbers stand until it reaps them.
func (j *job) kill() {
	if !j.unguarded {
		j.late = true
		_ = j.guard.Process.Kill() // it is gone already, or goes now
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

// pass passes a signal to the command's group.
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

// dismiss lets the guard go and joins it. What was held is released then.
func (j *job) dismiss() {
	if j.guard == nil {
		return
	}
	if j.begun && !j.send(order{Done: true}, doneTimeout) {
		// It guards nothing any more. The end of the orders would have it revoke the lease, on
		// which this process may lead again.
		_ = j.guard.Process.Kill()
		<-j.ended
	}
	_ = j.orders.Close() // nothing was kept
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
			reapAll() // those who left the group
			return
		case <-timeout:
			_ = j.guard.Process.Kill() // it is stopped, say
		}
	}
}
