package simulation

import (
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/invariant"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// checks compares the promises with the events. It knows the truth: the content of etcd, the living processes,
// the time. It is notified from the places where events happen, and calls no process then.
type checks struct {
	w *world

	mu        sync.Mutex
	truth     etcdState
	processes map[*modeletcd.Conn]*process
	author    originator // of the out-of-band change in progress

	losses        []keyLoss
	taints        []int64        // incarnations of members with altered records
	ended         map[int64]bool // leases
	accusations   []accusation
	requests      int
	resigned      []int64                    // tokens of terms that ended by giving up the key
	terms, writes invariant.Tokens[*process] // of terms, and of guarded writes

	shardOwners
	silenceState

	keyless []*process    // leaders that continue without their key, excused
	beside  time.Duration // since when two lead at once, excused; 0 if they do not
	outside time.Duration // since when one acts beside an outside candidate; 0 if none does
}

func newChecks(w *world) checks {
	return checks{w: w, truth: newEtcdState(w.keys), processes: map[*modeletcd.Conn]*process{}, ended: map[int64]bool{},
		shardOwners: newOwners(w.shards), silenceState: newSilenceState()}
}

// processFacts holds the checks' knowledge of one process.
type processFacts struct {
	incarnation int64
	lease       int64                        // on which it last registered
	last        *etcdsession.Session         // the session last seen as its present one
	roundBegan  map[int64]time.Duration      // by lease: start of the round under way
	confirmed   map[int64]time.Duration      // by lease: start of the newest round that etcd answered in full
	shown       map[int64]time.Duration      // by revision of a key: start of the newest round that found it
	periods     map[*etcdsession.Period]bool // lapsed periods
	lost        []lostWatch
	denied      bool
	blind       int           // watches to open until one reports events
	waits       time.Duration // until when it waits for an answer that does not come
	mayAct      bool          // its election had failed when it last requested the acting leader's key
	failures    int           // unanswered campaign requests since the last answer
	round       time.Duration // duration of the last answered round, with the unanswered ones before it
	renewed     bool          // the round under way has renewed the lease
	tries       time.Duration // since when it tries the next round; -1 if it does not

	token int64 // of the present term, or the last one
	mode  leaderelection.Mode
	over  time.Duration // end of that term; -1 if it has not ended

	silenceFacts

	serves []int64 // by shard: the epoch under which it was last seen to serve
	stop   stopFacts
	sleeps planIdle
}

func newProcessFacts(w *world) processFacts {
	return processFacts{roundBegan: map[int64]time.Duration{}, confirmed: map[int64]time.Duration{},
		shown: map[int64]time.Duration{}, periods: map[*etcdsession.Period]bool{},
		silenceFacts: silenceFacts{refuted: -1, lostWatcher: -1, invalid: -1}, over: -1, tries: -1,
		serves: make([]int64, w.shards)}
}

// fail records that a promise was broken. The first failure ends the run soon. The caller holds c.mu.
func (c *checks) fail(promise, format string, args ...any) {
	c.w.Fail(promise+" broken: "+format, args...)
	c.w.wakeChecks()
}

func (c *checks) recordStart(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes[p.conn] = p
}

// claim holds the claims of a process at this instant.
type claim struct {
	p      *process
	s      *etcdsession.Session // nil if it has none
	valid  bool
	period *etcdsession.Period
	stands bool
	token  int64 // of the term by which it leads; 0 if it does not lead
	mode   leaderelection.Mode
	view   *state.Snapshot
	shards []int64 // by shard: the epoch under which it holds it; 0 if it does not
	served []bool
}

// checkClaims checks the claims of all processes. The caller holds w.Mu.
func (c *checks) checkClaims(w *world) {
	w.judging.Store(true)
	claims := make([]claim, 0, len(w.hosts))
	for _, h := range w.hosts {
		if p := h.process; p != nil {
			claims = append(claims, p.currentClaim())
		}
	}
	w.judging.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	var leaders []*claim
	for i := range claims {
		x := &claims[i]
		c.checkPeriod(x)
		c.recordRecovery(x)
		c.checkRemovedSilent(x)
		c.checkLapse(x)
		if x.s != nil {
			x.p.facts.last = x.s
		}
		if x.valid {
			c.checkSession(x)
			c.checkHold(x)
		}
		if x.token == 0 {
			c.keyless = removeValue(c.keyless, x.p)
			continue
		}
		c.checkLeader(x)
		c.checkPlannerActive(x)
		leaders = append(leaders, x)
	}
	c.resetHolders()
	c.checkOverlap(leaders)
	c.checkBesideOutside(leaders)
	if w.Failure() != "" {
		w.endRun()
	}
}

// currentClaim asks a process for its claims.
func (p *process) currentClaim() claim {
	x := claim{p: p, s: p.session()}
	if p.viewSince == 0 && p.registered.Mirror.Snapshot() != nil {
		p.w.alter(func() { p.viewSince = p.w.Now() })
	}
	if x.s == nil {
		return x
	}
	x.valid, x.period = x.s.Valid(), x.s.Period()
	x.stands = x.period.ValidDespitePause()
	x.view = p.registered.Mirror.Snapshot()
	if t, leads := p.election.Term(); leads {
		x.token, x.mode = t.Token(), leaderelection.ModeElection
		if t.(interface{ Acting() bool }).Acting() {
			x.mode = leaderelection.ModeFallback
		}
	}
	shards := p.shards
	if shards == nil {
		return x
	}
	x.shards, x.served = make([]int64, shards.Count()), make([]bool, shards.Count())
	for n := range x.shards {
		if epoch, ok := shards.Serves(n); ok {
			x.shards[n], x.served[n] = epoch, true
		} else if epoch := p.facts.serves[n]; epoch != 0 && shards.Holds(n, epoch) {
			x.shards[n] = epoch
		} else if x.valid {
			x.shards[n] = p.user.acquiringEpoch(n)
		}
	}
	return x
}

// handleChange is called with every change in etcd, at that instant.
func (c *checks) handleChange(now, before *mvccpb.KeyValue, conn *modeletcd.Conn) {
	kv := now
	if now == nil {
		kv = before
	}
	parsed := c.w.keys.Parse(string(kv.Key))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.truth.applyChange(now, before, parsed)
	p := c.processes[conn]
	if now == nil {
		c.handleDelete(p, parsed, before)
	} else {
		c.handlePut(p, parsed, now, before)
	}
	c.w.wakeChecks()
}

// handlePut handles the write of a key.
func (c *checks) handlePut(p *process, parsed state.ParsedKey, now, before *mvccpb.KeyValue) {
	switch parsed.Kind {
	case state.KindReleased:
		c.recordReport(parsed.Address, now.ModRevision)
	case state.KindNode:
		switch {
		case p == nil || p.host.address != parsed.Address:
		case before == nil:
			c.checkEarlyReport(p, now)
			p.facts.incarnation, p.facts.lease = now.CreateRevision, now.Lease
			c.members[now.CreateRevision] = p
		case before.Lease == now.Lease:
			c.checkLeftRecord(p, now.Value)
		case before.Lease != 0 && !slices.Contains(c.taints, now.CreateRevision):
			c.fail("P6", "%s registered over the one at %d", p.id, now.CreateRevision)
		}
	}
}

// handleDelete handles the deletion of a key. p is the process that requested it, or nil.
func (c *checks) handleDelete(p *process, parsed state.ParsedKey, kv *mvccpb.KeyValue) {
	if parsed.Kind == state.KindReleased {
		c.recordReport(parsed.Address, c.truth.revision+1)
	}
	switch {
	case p == nil && c.author != byNobody:
		c.losses = append(c.losses, keyLoss{token: kv.CreateRevision, at: c.w.Now(), by: c.author})
	case p == nil && parsed.Kind == state.KindNode: // its lease has ended
		c.ended[kv.Lease] = true
	case p == nil:
	case parsed.Kind == state.KindNode && parsed.Address != p.host.address, parsed.Kind == state.KindNode &&
		kv.CreateRevision != p.facts.incarnation, kv.Lease != 0 && kv.Lease != p.facts.lease &&
		parsed.Kind == state.KindCandidate:
		// A removal on evidence, and the revocation that follows it.
		c.losses = append(c.losses, keyLoss{token: kv.CreateRevision, lease: kv.Lease, at: c.w.Now(),
			by: c.removalOriginator(kv.Lease)})
	case parsed.Kind == state.KindCandidate:
		c.checkGaveUp(p, kv)
	}
}

// candidateQueued reports whether a candidate's key exists on a lease.
func (c *checks) candidateQueued(lease int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.truth.getKey(c.w.keys.Candidate(lease)) != nil
}
