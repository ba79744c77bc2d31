package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/schedule"
	"github.com/goverse/goverse/internal/wait"
)

// script is a schedule with given hosts and given steps, in the same world as the drawn ones and with the same checks.
type script struct {
	hosts   int
	members int // of etcd; default 1
	ttl     time.Duration
	silence time.Duration // the members' silence time-out; 0 for none
	seed    uint64        // draws the delays of messages
	// prepare, if set, is called before the first process starts; steps when the schedule begins. Both plan events,
	// whose times count from then on.
	prepare, steps func(w *world)
	// lasts is the time after which everything is healed and the cluster must recover.
	lasts time.Duration
	// starts has the times at which processes start that do not start at once, by host.
	starts map[int]time.Duration
}

// runScript runs a script and requires that it keeps every promise, and what expect requires of the counted events.
func runScript(t *testing.T, s script, expect func(t *testing.T, n *schedule.Counts)) {
	t.Helper()
	suite := &schedule.Suite{Play: s.play}
	r := suite.RunSeed(t, s.seed, true)
	defer func() {
		if t.Failed() {
			t.Logf("with seed %d:\n%s", s.seed, r.Transcript)
		}
	}()
	require.Empty(t, r.Failure)
	if expect != nil {
		expect(t, r.Counts)
	}
}

func (s script) play(base *schedule.World) {
	w := &world{World: base, keys: clusterKeys, wake: wait.NewSignal(), ended: make(chan struct{})}
	w.Happened, w.Hindered, w.RequestTimeout = w.wakeChecks, w.markHindered, requestTimeout
	w.Mu.Lock()
	w.faults.w = w
	w.drift, w.silence = usualDrift, s.silence
	w.ttl, w.shards, w.window, w.crashDetection = s.ttl, 5, 50*time.Millisecond, true
	w.StartEtcd(max(s.members, 1))
	w.checks = newChecks(w)
	w.Etcd.Changed = w.checks.handleChange
	for i := range s.hosts {
		h := newHost(w, fmt.Sprintf("%c:1", 'a'+i))
		h.clocks.Store(&clocks{frozen: -1, suspended: -1})
		h.roles = roles{fallback: true, shards: w.shards}
		w.hosts = append(w.hosts, h)
	}
	if s.prepare != nil {
		s.prepare(w)
	}
	for i, h := range w.hosts {
		start, late := s.starts[i]
		if !late {
			start = time.Duration(i) * 10 * time.Millisecond
		}
		w.After(start, h.ensureStarted)
	}
	s.steps(w)
	w.After(s.lasts, w.healAndRecover)
	w.Mu.Unlock()
	w.runSchedule()
}

// at calls do at a time since the schedule began.
func (w *world) at(t time.Duration, do func()) { w.After(t-w.Now(), do) }

// expect fails the schedule unless ok is true.
func (w *world) expect(ok bool, format string, args ...any) {
	if !ok {
		w.Fail("not as expected: "+format, args...)
	}
}

// throughout fails the schedule unless ok returns true at every moment from begin to end.
func (w *world) throughout(begin, end time.Duration, ok func() bool, format string, args ...any) {
	for t := begin; t <= end; t += 10 * time.Millisecond {
		w.at(t, func() { w.expect(ok(), format, args...) })
	}
}

// when calls do once, at the next moment that a process of the host reaches.
func (w *world) when(h *host, m faultMoment, k requestKind, do func()) {
	w.faults.addTrigger(faultTrigger{moment: m + faultMoment(k), host: h, begin: do})
}

// lose determines the outcome of the host's next request of a kind.
func (w *world) lose(h *host, k requestKind, outcome schedule.Outcome, delay time.Duration) {
	w.addRule(schedule.Rule{Group: uint64(k), Link: h.link, Outcome: outcome, Delay: delay})
}

// cutBoth keeps two hosts from reaching each other for d. The connections stay open.
func (w *world) cutBoth(a, b *host, d time.Duration) {
	w.cutWay(a, b, d)
	w.cutWay(b, a, d)
}

// isMember reports whether the process that runs on a host, or ran there, is registered as it was first.
func (w *world) isMember(h *host, first int64) bool {
	kv := w.checks.currentKey(w.keys.Node(h.address))
	return kv != nil && kv.CreateRevision == first
}

// incarnation returns the incarnation of the process on a host.
func (h *host) incarnation() int64 { return h.w.checks.lastIncarnation(h.process) }

// leads reports whether a process on the host leads.
func (h *host) leads() bool { return h.process != nil && h.process.leads() }

// isValid reports whether the process on the host has a valid session.
func (h *host) isValid() bool {
	return h.process != nil && h.process.session() != nil && h.process.session().Valid()
}
