package schedule

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/internal/test/modeletcd"
)

// Link is the connection between one host and etcd. It outlives the host's processes, which run one after the
// other, each with a modeletcd.Conn.
type Link struct {
	World *World
	Name  string // of the host
	// Distance is the time that each way to etcd takes at least; MinHop and MaxHop bound its random part.
	Distance, MinHop, MaxHop time.Duration
	// Member is the member of etcd that requests go to. A link that Roams uses all in turn.
	Member int
	Roams  bool
	// Denies reports whether a denial of a prefix concerns a request. By default it concerns the transactions that
	// touch a key with the prefix.
	Denies func(request any, prefix string) bool

	turn  atomic.Int64
	state atomic.Pointer[LinkState]
	conn  atomic.Pointer[modeletcd.Conn] // of the present process

	mu     sync.Mutex
	counts map[uint64]uint64 // requests so far, by group
}

// LinkState holds the faults of a link. It is immutable.
type LinkState struct {
	NoRequests, NoAnswers bool          // requests or answers are lost
	Slow                  time.Duration // extra delay of each way, at most
	SlowWatch             time.Duration // extra delay of each response of a watch, at most
	Busy                  time.Duration // scheduling delay of the host's goroutines, at most
	CutOff                bool          // messages wait, and nothing is lost
	Stopped               bool          // the process stands still
	Frozen                bool          // watches deliver nothing
	Denied                string        // etcd's access control refuses requests that concern keys with this prefix
	Odds                  Odds
}

// IsHealthy reports whether the link has no fault. A denial does not count, because it delays nothing; nor does a
// process that stands still.
func (s LinkState) IsHealthy() bool {
	s.Denied, s.Stopped = "", false
	return s == LinkState{}
}

// NewLink returns a link without faults.
func (w *World) NewLink(name string) *Link {
	l := &Link{World: w, Name: name, counts: map[uint64]uint64{}, MinHop: 100 * time.Microsecond,
		MaxHop: 1500 * time.Microsecond, Denies: func(request any, prefix string) bool {
			r, ok := request.(*pb.TxnRequest)
			return ok && Touches(r, prefix)
		}}
	l.state.Store(&LinkState{})
	return l
}

// State returns the present faults.
func (l *Link) State() LinkState { return *l.state.Load() }

// Change changes the state. The caller holds the world's Mu.
func (l *Link) Change(change func(*LinkState)) {
	s := l.State()
	change(&s)
	l.state.Store(&s)
	if c := l.Conn(); c != nil {
		s.apply(c)
	}
}

func (s LinkState) apply(c *modeletcd.Conn) {
	c.SetFrozen(s.Frozen)
	c.SetHeld(s.CutOff || s.Stopped)
}

// Conn returns the present process's connection, or nil if no process runs.
func (l *Link) Conn() *modeletcd.Conn { return l.conn.Load() }

// Connect connects a new process. deliver is called for each of its requests, like that of modeletcd.Connect. The
// caller holds the world's Mu.
func (l *Link) Connect(process string, deliver func(request any) modeletcd.Delivery) *modeletcd.Conn {
	c := l.World.Etcd.ConnectTo(l.nextMember, process, deliver)
	l.State().apply(c)
	l.conn.Store(c)
	return c
}

// Disconnect ends the process. Later faults do not affect its requests in flight. The caller holds the world's Mu.
func (l *Link) Disconnect() { l.conn.Store(nil) }

// nextMember returns the member of etcd that the next request goes to.
func (l *Link) nextMember() int {
	if l.Roams {
		return int(l.turn.Add(1)) % l.World.Members
	}
	return l.Member
}

// Deliver draws the delivery of a request and its outcome. Both depend on the group and on the number of requests
// of that group before it, not on the order in which a process happens to send requests of different groups.
func (l *Link) Deliver(group uint64, request any) (d modeletcd.Delivery, outcome Outcome) {
	l.mu.Lock()
	l.counts[group]++
	r := NewRand(l.World.Seed^group, l.Name, l.counts[group])
	l.mu.Unlock()
	s := l.State()
	delay := func() time.Duration {
		return l.Distance + Between(r, l.MinHop, l.MaxHop) + Between(r, 0, s.Slow) + Between(r, 0, s.Busy)
	}
	d = modeletcd.Delivery{Out: delay(), Back: delay()}
	if _, ok := request.(*pb.WatchResponse); ok {
		d.Back += Between(r, 0, s.SlowWatch)
		return d, Arrives
	}
	if rule, found := l.World.takeRule(l, group); found {
		outcome = rule.Outcome
		d.Lost, d.Unanswered = outcome == Lost, outcome == Unanswered || outcome == Late
		d.Out += rule.Delay
	} else if s.Odds != (Odds{}) {
		outcome = l.World.drawOutcome(r, s.Odds, request, &d)
	}
	d.Lost, d.Unanswered = d.Lost || s.NoRequests, d.Unanswered || s.NoAnswers
	if s.Denied != "" && l.Denies(request, s.Denied) {
		d.Refused, outcome = modeletcd.Denied, Denied
	}
	if outcome != Arrives {
		l.World.Counts.Add(string(outcome), 1)
	}
	return d, outcome
}

// Touches reports whether a transaction would put, delete or read a key with this prefix.
func Touches(r *pb.TxnRequest, prefix string) bool {
	return Writes(r, prefix) ||
		anyKey(r, prefix, func(op *pb.RequestOp) []byte { return op.GetRequestRange().GetKey() })
}

// Writes reports whether a transaction would put or delete a key with this prefix.
func Writes(r *pb.TxnRequest, prefix string) bool {
	return anyKey(r, prefix, func(op *pb.RequestOp) []byte {
		return append(op.GetRequestPut().GetKey(), op.GetRequestDeleteRange().GetKey()...)
	})
}

func anyKey(r *pb.TxnRequest, prefix string, keyOf func(*pb.RequestOp) []byte) bool {
	return slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool {
		inner := op.GetRequestTxn()
		return inner != nil && anyKey(inner, prefix, keyOf) || bytes.HasPrefix(keyOf(op), []byte(prefix))
	})
}
