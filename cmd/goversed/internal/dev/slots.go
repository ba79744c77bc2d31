package dev

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/state"
)

const (
	// startAttempts limits the starts of a node that never registered. Its ports were free when they were
	// picked, but are not reserved, so another process may take them.
	startAttempts = 5
	// steady is the running time after which the count of a slot's failures starts anew.
	steady = 10 * time.Second
)

// restart is the pause before a node that ended by itself more than once is replaced.
var restart = backoff.Policy{First: 200 * time.Millisecond, Last: 5 * time.Second}

// nodeSlot is the place of one node, in which one process runs after the other.
type nodeSlot struct {
	address, http string
	run           *process  // nil while none runs
	proven        bool      // a process has registered at this address
	gone          int64     // incarnation that died with the last process, 0 if none
	failures      int       // consecutive
	restart       time.Time // when to start the next process, while none runs
}

// member returns the registration of the process that runs in the slot, or nil if there is none yet.
func (c *nodeSlot) member(s *state.Snapshot) *state.Member {
	if s == nil || c.run == nil {
		return nil
	}
	if m := s.Member(c.address); m != nil && m.Incarnation != c.gone {
		return m
	}
	return nil
}

// start starts a process in a slot. A failure is handled like the end of a process.
func (l *loop) start(c *nodeSlot) {
	level := "warn"
	if l.cfg.Verbose {
		level = "info"
	}
	args := append([]string{}, l.cfg.Command[1:]...)
	args = append(args, "--listen", c.address, "--http", c.http, "--etcd", l.endpoint, "--prefix", prefix,
		"--ttl", l.cfg.TTL.String(), "--log-level", level)
	cmd := exec.Command(l.cfg.Command[0], args...)
	log := &lineWriter{name: c.address, emit: l.logs}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = environment()
	cmd.WaitDelay = pipePatience
	p := &process{cmd: cmd, log: log, started: time.Now()}
	if err := l.starter.Start(cmd); err != nil {
		l.ended(c, nil, err.Error(), time.Now())
		return
	}
	c.run = p
	l.waiters.Go(func() { l.exits <- exit{c, p.wait()} })
	if c.proven {
		l.say("%s replaced: process %d at the same address", c.address, p.pid())
		return
	}
	l.say("%s started: process %d, dashboard %s", c.address, p.pid(), dashboardAt(c.http))
}

func dashboardAt(http string) string { return "http://" + http + "/" }

func (l *loop) exited(e exit, now time.Time) {
	p := e.slot.run
	e.slot.run = nil
	if m := l.newest().Member(e.slot.address); m != nil {
		e.slot.gone = m.Incarnation
	}
	l.ended(e.slot, p, e.how, now)
}

// ended decides what follows the end of a process. While stopping, nothing follows. After a kill of ours it is
// replaced at once. Otherwise it is replaced, too, after a pause that grows with each consecutive failure.
func (l *loop) ended(c *nodeSlot, p *process, how string, now time.Time) {
	switch {
	case l.stopping:
		l.say("%s ended (%s)", c.address, how)
		return
	case p != nil && p.killed:
		c.restart = now
		return
	}
	if p != nil && now.Sub(p.started) > steady {
		c.failures = 0
	}
	c.failures++
	if !c.proven {
		l.restartElsewhere(c, how, now)
		return
	}
	wait, when := time.Duration(0), "at once"
	if c.failures > 1 {
		wait = restart.Delay(c.failures-1, backoff.NoJitter) // no jitter, because the log shows it
		when = "in " + short(wait)
	}
	c.restart = now.Add(wait)
	l.say("%s ended by itself (%s), to be replaced %s", c.address, how, when)
}

// restartElsewhere starts a node that never registered again, at other ports.
func (l *loop) restartElsewhere(c *nodeSlot, how string, now time.Time) {
	if c.failures >= startAttempts {
		l.fail(fmt.Errorf("dev: a node could not be started, see what it said: %s", how))
		return
	}
	l.say("%s did not start (%s), trying other ports", c.address, how)
	addresses, err := port.Servers.Loopback(2)
	if err != nil {
		l.fail(fmt.Errorf("dev: %w", err))
		return
	}
	c.address, c.http, c.gone, c.restart = addresses[0], addresses[1], 0, now
}

func (l *loop) running() int {
	n := 0
	for _, c := range l.slots {
		if c.run != nil {
			n++
		}
	}
	return n
}

func (l *loop) killAll() {
	for _, c := range l.slots {
		if c.run != nil {
			c.run.signal(os.Kill)
		}
	}
}

// killLeader kills the leader's process if all nodes are queued. If not, the next change of the snapshot leads
// here again.
func (l *loop) killLeader() {
	if l.seen == nil || l.pending != nil {
		return
	}
	leader := l.seen.Leader()
	var chosen *nodeSlot
	for _, c := range l.slots {
		m := c.member(l.seen)
		if m == nil || m.Stopping {
			return
		}
		if candidate, _ := l.seen.Candidate(m.Lease); candidate == nil && m.Lease != leader.Lease {
			return
		}
		if m.Lease == leader.Lease {
			chosen = c
		}
	}
	if leader.Address == "" {
		return
	}
	if chosen == nil {
		if l.foreign != leader.Token {
			l.foreign = leader.Token
			l.say("%s leads and was not started here: not killed", leader.Address)
		}
		return
	}
	at := time.Now()
	chosen.run.killed = true
	chosen.run.signal(os.Kill)
	l.pending, l.nextKill = &kill{token: leader.Token, at: at}, at.Add(l.cfg.KillEvery)
	l.kills++
	l.say("%s killed: the leader with token %d, process %d", chosen.address, leader.Token, chosen.run.pid())
}

// open returns the number of kills that no leader followed yet.
func (l *loop) open() int { return l.kills - len(l.samples) }
