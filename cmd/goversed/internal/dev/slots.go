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
	// steadyAfter is the running time after which the count of a slot's failures starts anew.
	steadyAfter = 10 * time.Second
)

// restartBackoff is the pause before a node that ended by itself more than once is replaced.
var restartBackoff = backoff.Policy{First: 200 * time.Millisecond, Last: 5 * time.Second}

// nodeSlot is the place of one node, in which one process runs after the other.
type nodeSlot struct {
	address, http   string
	process         *nodeProcess // nil while none runs
	registeredOnce  bool         // a process has registered at this address
	deadIncarnation int64        // incarnation that died with the last process, 0 if none
	failures        int          // consecutive
	restartAt       time.Time    // when to start the next process, while none runs
}

// registration returns the registration of the process that runs in the slot, or nil if there is none yet.
func (c *nodeSlot) registration(s *state.Snapshot) *state.Member {
	if s == nil || c.process == nil {
		return nil
	}
	if m := s.Member(c.address); m != nil && m.Incarnation != c.deadIncarnation {
		return m
	}
	return nil
}

// startProcess starts a process in a slot. A failure is handled like the end of a process.
func (l *eventLoop) startProcess(c *nodeSlot) {
	level := "warn"
	if l.cfg.Verbose {
		level = "info"
	}
	args := append([]string{}, l.cfg.Command[1:]...)
	args = append(args, "--listen", c.address, "--http", c.http, "--etcd", l.endpoint, "--prefix", devPrefix,
		"--ttl", l.cfg.TTL.String(), "--log-level", level)
	cmd := exec.Command(l.cfg.Command[0], args...)
	log := &lineWriter{name: c.address, emit: l.logs}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = nodeEnvironment()
	cmd.WaitDelay = pipeTimeout
	p := &nodeProcess{cmd: cmd, log: log, started: time.Now()}
	if err := l.starter.Start(cmd); err != nil {
		l.handleProcessEnd(c, nil, err.Error(), time.Now())
		return
	}
	c.process = p
	l.waiters.Go(func() { l.exits <- processExit{c, p.wait()} })
	if c.registeredOnce {
		l.printEvent("%s replaced: process %d at the same address", c.address, p.pid())
		return
	}
	l.printEvent("%s started: process %d, dashboard %s", c.address, p.pid(), dashboardURL(c.http))
}

func dashboardURL(http string) string { return "http://" + http + "/" }

func (l *eventLoop) handleExit(e processExit, now time.Time) {
	p := e.slot.process
	e.slot.process = nil
	if m := l.latestSnapshot().Member(e.slot.address); m != nil {
		e.slot.deadIncarnation = m.Incarnation
	}
	l.handleProcessEnd(e.slot, p, e.description, now)
}

// handleProcessEnd decides what follows the end of a process. While stopping, nothing follows. After a kill of ours it
// is replaced at once. Otherwise it is replaced, too, after a pause that grows with each consecutive failure.
func (l *eventLoop) handleProcessEnd(c *nodeSlot, p *nodeProcess, how string, now time.Time) {
	switch {
	case l.stopping:
		l.printEvent("%s ended (%s)", c.address, how)
		return
	case p != nil && p.killed:
		c.restartAt = now
		return
	}
	if p != nil && now.Sub(p.started) > steadyAfter {
		c.failures = 0
	}
	c.failures++
	if !c.registeredOnce {
		l.restartElsewhere(c, how, now)
		return
	}
	wait, when := time.Duration(0), "at once"
	if c.failures > 1 {
		wait = restartBackoff.Delay(c.failures-1, backoff.NoJitter) // no jitter, because the log shows it
		when = "in " + formatDuration(wait)
	}
	c.restartAt = now.Add(wait)
	l.printStyled(badStyle, "%s ended by itself (%s), to be replaced %s", c.address, how, when)
}

// restartElsewhere starts a node that never registered again, at other ports.
func (l *eventLoop) restartElsewhere(c *nodeSlot, how string, now time.Time) {
	if c.failures >= startAttempts {
		l.fail(fmt.Errorf("dev: a node could not be started, see what it said: %s", how))
		return
	}
	l.printStyled(badStyle, "%s did not start (%s), trying other ports", c.address, how)
	addresses, err := port.Servers.Loopback(2)
	if err != nil {
		l.fail(fmt.Errorf("dev: %w", err))
		return
	}
	c.address, c.http, c.deadIncarnation, c.restartAt = addresses[0], addresses[1], 0, now
}

func (l *eventLoop) countRunning() int {
	n := 0
	for _, c := range l.slots {
		if c.process != nil {
			n++
		}
	}
	return n
}

func (l *eventLoop) killAll() {
	for _, c := range l.slots {
		if c.process != nil {
			c.process.signal(os.Kill)
		}
	}
}

// killLeader kills the leader's process if all nodes are queued. If not, the next change of the snapshot leads
// here again.
func (l *eventLoop) killLeader() {
	if l.appliedSnapshot == nil || l.pendingKill != nil {
		return
	}
	leader := l.appliedSnapshot.Leader()
	var chosen *nodeSlot
	for _, c := range l.slots {
		m := c.registration(l.appliedSnapshot)
		if m == nil || m.Stopping {
			return
		}
		if candidate, _ := l.appliedSnapshot.CandidateOn(m.Lease); candidate == nil && m.Lease != leader.Lease {
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
		if l.foreignToken != leader.Token {
			l.foreignToken = leader.Token
			l.printEvent("%s leads and was not started here: not killed", leader.Address)
		}
		return
	}
	at := time.Now()
	chosen.process.killed = true
	chosen.process.signal(os.Kill)
	l.pendingKill, l.nextKill = &leaderKill{token: leader.Token, at: at}, at.Add(l.cfg.KillEvery)
	l.kills++
	l.printStyled(badStyle, "%s killed: the leader with token %d, process %d", chosen.address, leader.Token,
		chosen.process.pid())
}

// countOpenKills returns the number of kills that no leader followed yet.
func (l *eventLoop) countOpenKills() int { return l.kills - len(l.samples) }
