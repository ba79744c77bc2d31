package simulation

import (
	"errors"
	"slices"
	"strings"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/txn"
)

// The errors that etcd answers with.
var (
	errNoLease   = errors.New("etcdserver: requested lease not found")
	errDenied    = errors.New("etcdserver: permission denied")
	errCompacted = errors.New("etcdserver: mvcc: required revision has been compacted")
)

const clusterID = 1

// etcd is one etcd, as its clients see it: every change at a revision of its own, in
// one order.
type etcd struct {
	w        *world
	revision int64
	term     uint64     // of raft
	keys     []state.KV // by key
	// history is every change since the compaction; an event carries its revision.
	history   []state.Event
	all       []state.Event // also what was compacted
	compacted int64
	leases    []*lease
	granted   int64
	watches   []*watch
	away      bool  // it answers nobody
	author    cause // of the change being made
}

// cause is who or what makes a change.
type cause struct {
	p      *process // whose request it is; nil: none's
	by     by
	member *state.Member // whose keys a removal deletes
}

type by int

const (
	request by = iota
	expiry
	hand // of somebody outside
	removal
	outsideCandidate
	early // etcd itself, of a lease that was renewed
	exempts
)

// answer is what etcd says to a request.
type answer struct {
	revision int64      // at which it was answered
	held     bool       // the guards of the change held
	found    []state.KV // what was read
	lease    int64      // granted
	term     uint64     // of raft, in which it was, or in which the range was read
}

// execute makes a change, or says why not. h is where it comes from.
func (e *etcd) execute(h *host, c txn.Txn) (answer, error) {
	held := !slices.ContainsFunc(c.If, func(g txn.Guard) bool { return !e.holds(g) })
	ops := c.Else
	if held {
		ops = c.Then
	}
	for _, op := range ops {
		if op.Kind == txn.Put && op.Lease != 0 && e.lease(op.Lease) == nil {
			return answer{}, errNoLease
		}
	}
	if h != nil && h.denied && (e.deniesAny(c.Then) || e.deniesAny(c.Else)) {
		return answer{}, errDenied
	}
	a := answer{held: held}
	next := e.revision + 1
	for _, op := range ops {
		switch op.Kind {
		case txn.Get:
			if kv := e.get(op.Key); kv != nil {
				a.found = append(a.found, *kv)
			}
		case txn.Put:
			e.put(op, next)
		case txn.Delete:
			e.remove(op.Key, next)
		}
	}
	e.notify()
	a.revision = e.revision
	return a, nil
}

// deniesAny: access control looks at the keys that a transaction could write, whether
// it would or not.
func (e *etcd) deniesAny(ops []txn.Op) bool {
	return slices.ContainsFunc(ops, func(op txn.Op) bool {
		return op.Kind != txn.Get && strings.HasPrefix(op.Key, e.w.keys.Queue())
	})
}

func (e *etcd) holds(g txn.Guard) bool {
	if g.End == "" {
		return field(e.get(g.Key), g.Field) == g.Is
	}
	from, _ := e.find(g.Key)
	to, _ := e.find(g.End)
	if from == to {
		return g.Is == 0
	}
	return !slices.ContainsFunc(e.keys[from:to], func(kv state.KV) bool { return field(&kv, g.Field) != g.Is })
}

func field(kv *state.KV, f txn.Field) int64 {
	switch {
	case kv == nil:
		return 0
	case f == txn.ModRevision:
		return kv.ModRevision
	}
	return kv.CreateRevision
}

func (e *etcd) find(key string) (int, bool) {
	return slices.BinarySearchFunc(e.keys, key, func(kv state.KV, key string) int { return strings.Compare(kv.Key, key) })
}

func (e *etcd) get(key string) *state.KV {
	if i, ok := e.find(key); ok {
		return &e.keys[i]
	}
	return nil
}

// read is all of the cluster's range.
func (e *etcd) read() answer {
	from, _ := e.find(e.w.keys.RangeStart())
	to, _ := e.find(e.w.keys.RangeEnd())
	return answer{revision: e.revision, term: e.term, found: slices.Clone(e.keys[from:to])}
}

// readAt is what the cluster's range was like at a revision: keys and revisions alone.
func (e *etcd) readAt(revision int64) (answer, error) {
	if revision < e.compacted {
		return answer{}, errCompacted
	}
	a := answer{revision: e.revision}
	for _, ev := range e.all {
		if ev.ModRevision > revision {
			break
		}
		if ev.Key < e.w.keys.RangeStart() || ev.Key >= e.w.keys.RangeEnd() {
			continue
		}
		i, exists := slices.BinarySearchFunc(a.found, ev.Key, func(kv state.KV, key string) int {
			return strings.Compare(kv.Key, key)
		})
		if exists {
			a.found = slices.Delete(a.found, i, i+1)
		}
		if !ev.Deleted {
			a.found = slices.Insert(a.found, i, state.KV{Key: ev.Key, ModRevision: ev.ModRevision})
		}
	}
	return a, nil
}

func (e *etcd) put(op txn.Op, revision int64) {
	kv := state.KV{Key: op.Key, Value: []byte(op.Value), CreateRevision: revision, ModRevision: revision, Lease: op.Lease}
	i, exists := e.find(op.Key)
	if exists {
		kv.CreateRevision = e.keys[i].CreateRevision
		e.keys[i] = kv
	} else {
		e.keys = slices.Insert(e.keys, i, kv)
	}
	e.revision = revision
	e.note(state.Event{KV: kv})
	e.w.checks.put(e.w, kv)
	if log := e.w.log; log != nil {
		log.say("etcd: %d put %s = %s on lease %x", revision, kv.Key, kv.Value, kv.Lease)
	}
}

func (e *etcd) remove(key string, revision int64) {
	i, exists := e.find(key)
	if !exists {
		return
	}
	gone := e.keys[i]
	e.keys = slices.Delete(e.keys, i, i+1)
	e.revision = revision
	e.note(state.Event{KV: state.KV{Key: key, ModRevision: revision}, Deleted: true})
	if log := e.w.log; log != nil {
		log.say("etcd: %d delete %s (created at %d)", revision, key, gone.CreateRevision)
	}
	e.w.checks.deleted(e.w, gone, e.author)
}

func (e *etcd) note(ev state.Event) {
	e.history, e.all = append(e.history, ev), append(e.all, ev)
}

// compact forgets what happened before the revision.
func (e *etcd) compact(revision int64) {
	e.compacted = max(e.compacted, min(revision, e.revision))
	i := 0
	for i < len(e.history) && e.history[i].ModRevision <= e.compacted {
		i++
	}
	e.history = e.history[i:]
}

// since is what happened after revision, up to another one.
func (e *etcd) since(after, upTo int64) ([]state.Event, error) {
	switch {
	case upTo <= after:
		return nil, nil
	case after < e.compacted:
		return nil, errCompacted
	}
	first := func(revision int64) int {
		i := len(e.history)
		for i > 0 && e.history[i-1].ModRevision > revision {
			i--
		}
		return i
	}
	return e.history[first(after):first(upTo)], nil
}
