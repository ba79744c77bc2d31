package modeletcd

import (
	"bytes"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Etcd is a model of etcd, with one member or several. All methods are safe for concurrent use.
type Etcd struct {
	// MaxOps limits the operations of a transaction at one level, with the inner ones counted on top of the
	// outer ones, as etcd's --max-txn-ops does.
	MaxOps int
	// Changed, if set, is called at the instant of every change, in order. now and before are the key after and
	// before the change, nil where it does not exist. by is the connection that requested the change, nil if a
	// lease expired or the change was out of band. Changed must not block, nor call this package.
	Changed func(now, before *mvccpb.KeyValue, by *Conn)

	mu           sync.Mutex
	store        store
	leases       map[int64]*lease
	lastID       int64
	conns        []*Conn
	requester    *Conn // connection of the request that is being executed
	noSpace      bool
	overfullTxns int // transactions that are still executed although etcd answers that it has no space

	members     []*member
	leader      *member // nil: it gave up, and no other was elected
	term        uint64
	elected     int64       // revision at which its term began
	election    *time.Timer // runs while the members wait for an unreachable leader
	pending     []pendingRequest
	drawBetween func(least, most time.Duration) time.Duration
}

// New returns an etcd of one member, without keys, at revision 1, that takes 128 operations in a transaction.
func New() *Etcd {
	e := &Etcd{MaxOps: 128, leases: map[int64]*lease{}, term: 2}
	e.leader = &member{leads: true, term: e.term}
	e.members = []*member{e.leader}
	e.drawBetween = func(least, most time.Duration) time.Duration { return (least + most) / 2 }
	e.store = store{revision: 1, granted: func(id int64) bool { return e.leases[id] != nil }, changed: e.recordChange}
	return e
}

// txnsBeforeAlarm is the number of transactions that etcd still executes when its space is used up, while it
// answers as if it had refused them: those before its alarm is raised.
const txnsBeforeAlarm = 2

// SetNoSpace controls whether etcd refuses requests that take space; deletions take none. As in etcd, the first
// transactions are executed nevertheless, and answered with the same error.
func (e *Etcd) SetNoSpace(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.noSpace, e.overfullTxns = on, 0
	if on {
		e.overfullTxns = txnsBeforeAlarm
	}
}

// Compact compacts the history up to the present revision.
func (e *Etcd) Compact() {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.store.compact(e.store.revision) // fails only if nothing has changed since the last time
}

// Keys returns the keys with this prefix, ordered by key.
func (e *Etcd) Keys(prefix string) []*mvccpb.KeyValue {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.keysWithPrefix(prefix))
}

func (e *Etcd) keysWithPrefix(prefix string) []*mvccpb.KeyValue {
	i, _ := e.store.findKey([]byte(prefix))
	j := i
	for j < len(e.store.keys) && bytes.HasPrefix(e.store.keys[j].Key, []byte(prefix)) {
		j++
	}
	return e.store.keys[i:j]
}

// Revision returns the present revision.
func (e *Etcd) Revision() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.store.revision
}

// Execute executes an out-of-band transaction at once.
func (e *Etcd) Execute(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return executeRequest(e, nil, func() (*pb.TxnResponse, error) { return e.store.executeTxn(r) })
}

// Delete deletes a key out of band.
func (e *Etcd) Delete(key string) {
	request := &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}
	_, _ = e.Execute(&pb.TxnRequest{Success: []*pb.RequestOp{{Request: request}}})
}

// executeRequest executes a request of a connection and lets the watches deliver its changes. The caller holds the
// lock.
func executeRequest[T any](e *Etcd, by *Conn, request func() (T, error)) (T, error) {
	e.requester = by
	before := e.store.revision
	resp, err := request()
	e.requester = nil
	if e.store.revision != before {
		for _, c := range e.conns {
			c.sendEvents()
		}
	}
	return resp, err
}

// recordChange updates the keys of leases and calls Changed.
func (e *Etcd) recordChange(ev *mvccpb.Event, before *mvccpb.KeyValue) {
	key := string(ev.Kv.Key)
	if before != nil && before.Lease != 0 {
		delete(e.leases[before.Lease].keys, key)
	}
	now := ev.Kv
	switch {
	case ev.Type == mvccpb.Event_DELETE:
		now = nil
	case now.Lease != 0:
		e.leases[now.Lease].keys[key] = true
	}
	if e.Changed != nil {
		e.Changed(now, before, e.requester)
	}
}

// refusalError returns the error with which etcd refuses a transaction, or nil.
func (e *Etcd) refusalError(r *pb.TxnRequest) error {
	if err := checkOpCount(r, e.MaxOps); err != nil {
		return err
	}
	if e.noSpace && e.overfullTxns == 0 && takesSpace(r) {
		return rpctypes.ErrGRPCNoSpace
	}
	return nil
}

// answerError returns the error with which etcd answers an executed transaction, or nil.
func (e *Etcd) answerError(r *pb.TxnRequest) error {
	if !e.noSpace || !takesSpace(r) {
		return nil
	}
	e.overfullTxns--
	return rpctypes.ErrGRPCNoSpace
}

func checkOpCount(r *pb.TxnRequest, most int) error {
	n := max(len(r.Compare), len(r.Success), len(r.Failure))
	if n > most {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, op := range slices.Concat(r.Success, r.Failure) {
		if inner := op.GetRequestTxn(); inner != nil {
			if err := checkOpCount(inner, most-n); err != nil {
				return err
			}
		}
	}
	return nil
}

// takesSpace reports whether a transaction contains a put, whether or not it would be executed.
func takesSpace(r *pb.TxnRequest) bool {
	return slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool {
		inner := op.GetRequestTxn()
		return op.GetRequestPut() != nil || inner != nil && takesSpace(inner)
	})
}
