package simulation

import (
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/candidacy"
	"github.com/goverse/goverse/internal/linger"
	"github.com/goverse/goverse/internal/shardplan"
)

// process is one process with one node: it stands for what package cluster assembles.
type process struct {
	w    *world
	host *host
	id   string // the instance

	looks time.Duration // since when it has a view

	dead    bool
	paused  bool
	waiting []event // what would have happened while it was paused

	mirror   mirror
	keeper   keeper
	member   member
	election leaderElection
	detector detector
	planner  planner
	holder   holder

	leaving leaving

	// What the checks know of its campaigns since one had a key.
	denied   bool
	failures int   // that failed
	last     *term // of it that ended
}

// requestTimeout is Config.RequestTimeout, workTimeout Config.WorkTimeout.
const (
	requestTimeout = 2 * time.Second
	workTimeout    = 5 * time.Second
)

// start runs a new process on the host: Cluster.Start.
func (h *host) start() *process {
	h.born++
	p := &process{w: h.w, host: h, id: fmt.Sprintf("%s#%d", h.address, h.born)}
	h.process = p
	if h.w.log != nil {
		h.w.log.of(p, "starts")
	}
	p.mirror.p, p.keeper.p, p.member.p, p.election.p, p.detector.p = p, p, p, p, p
	p.planner = planner{p: p, part: shardplan.New(h.planning())}
	p.holder = holder{p: p, slots: make([]slot, h.roles.shards)}
	p.member.record = newRecord(p)
	p.election.part = candidacy.New(candidacy.Settings{Address: h.address, Fallback: h.roles.fallback,
		WorkTimeout: workTimeout}, !h.roles.observer)
	p.mirror.lingers = linger.New(h.address)
	p.mirror.read()
	return p
}

// after is a timer of the process.
func (p *process) after(d time.Duration, do func()) {
	h := p.host
	due := h.mono() + int64(max(d, 0))
	p.w.queue.push(event{at: p.w.now + h.untilMono(due), p: p, due: due, do: do})
}

// soon lets another goroutine of the process run.
func (p *process) soon(do func()) {
	p.w.queue.push(event{at: p.w.now + p.w.between(0, 50*time.Microsecond) + p.host.lag(), p: p, do: do})
}

// lag is by how much a busy host keeps a goroutine waiting.
func (h *host) lag() time.Duration {
	if h.slow == 0 {
		return 0
	}
	return h.w.between(0, h.slow)
}

// mayStep reports whether ev can happen now; if not, it is seen to that it happens
// when it can.
func (p *process) mayStep(ev event) bool {
	switch {
	case p.dead:
		return false
	case p.paused || p.host.suspended >= 0:
		p.waiting = append(p.waiting, ev)
		return false
	case ev.due > p.host.mono(): // the clock stood still meanwhile
		ev.at = p.w.now + p.host.untilMono(ev.due)
		p.w.queue.push(ev)
		return false
	}
	return true
}

// goOn lets happen, in any order, what was held up by a pause.
func (p *process) goOn() {
	if p.paused || p.host.suspended >= 0 {
		return
	}
	p.host.hinder()
	held := p.waiting
	p.waiting = nil
	for _, ev := range held {
		ev.at = p.w.now + p.w.between(0, 200*time.Microsecond)
		p.w.queue.push(ev)
	}
}

// die ends the process at once, as SIGKILL does. Its kernel closes its sockets, unless
// the host goes with it.
func (p *process) die(withHost bool) {
	p.dead = true
	p.host.process = nil
	p.waiting = nil
	p.detector.closed(withHost)
	p.mirror.unwatch()
}

// leads is LeaderElection.IsLeader.
func (p *process) leads() bool {
	t := p.election.term
	return t != nil && t.valid()
}
