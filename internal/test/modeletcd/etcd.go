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

// Etcd is one etcd, of one member or several. All methods are safe for concurrent use.
type Etcd struct {
	// MaxOps is how many operations a transaction may have at one level, inner ones counting on
	// from the outer; as etcd's --max-txn-ops.
	MaxOps int
	// Changed, if set, is called at the instant of every change, in order: with the key as it is
	// now and as it was before, nil if it is not or was not there, and whose request it was: nil if a
	// lease ran out or it was revoked out of band. It must not block, nor call this package.
	Changed func(now, before *mvccpb.KeyValue, by *Conn)

	mu      sync.Mutex
	store   store
	leases  map[int64]*lease
	lastID  int64
	conns   []*Conn
	by      *Conn // whose request is being carried out
	noSpace bool
	full    int // so many transactions are carried out still, though it answers that it has no space

	members  []*member
	leader   *member // whom the others follow; nil: it gave up, and there is no other
	term     uint64
	elected  int64       // the revision at which that began
	election *time.Timer // while the members wait for a leader who is away
	pending  []waits
	between  func(least, most time.Duration) time.Duration
}

// New is an etcd with no keys at revision 1, that takes 128 operations in a transaction.
func New() *Etcd {
	e := &Etcd{MaxOps: 128, leases: map[int64]*lease{}, term: 2}
	e.leader = &member{leads: true, term: e.term}
	e.members = []*member{e.leader}
	e.between = func(least, most time.Duration) time.Duration { return (least + most) / 2 }
	e.store = store{revision: 1, granted: func(id int64) bool { return e.leases[id] != nil }, changed: e.changed}
	return e
}

// beforeAlarm is how many transactions etcd carries out that were on their way when its space was used up, and answers
// as if it had refused them: all until its alarm is raised.
const beforeAlarm = 2

// SetNoSpace has it refuse whatever takes space, or not any more. What deletes takes none. The first transactions are
// carried out all the same, as etcd does, and answered with the same error.
func (e *Etcd) SetNoSpace(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.noSpace, e.full = on, 0
	if on {
		e.full = beforeAlarm
	}
}

// Compact forgets what happened up to now.
func (e *Etcd) Compact() {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.store.compact(e.store.revision) // nothing happened since the last time
}

// Keys are the keys with that prefix, by key.
func (e *Etcd) Keys(prefix string) []*mvccpb.KeyValue {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.under(prefix))
}

func (e *Etcd) under(prefix string) []*mvccpb.KeyValue {
	i, _ := e.store.find([]byte(prefix))
	j := i
	for j < len(e.store.keys) && bytes.HasPrefix(e.store.keys[j].Key, []byte(prefix)) {
		j++
	}
	return e.store.keys[i:j]
}

// Revision is the newest.
func (e *Etcd) Revision() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.store.revision
}

// Do carries out an out-of-band transaction, at once.
func (e *Etcd) Do(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return carryOut(e, nil, func() (*pb.TxnResponse, error) { return e.store.txn(r) })
}

// Delete deletes a key out of band.
func (e *Etcd) Delete(key string) {
	request := &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}
	_, _ = e.Do(&pb.TxnRequest{Success: []*pb.RequestOp{{Request: request}}})
}

// carryOut carries out a request of a connection's, and has the watches deliver it. The lock is held.
func carryOut[T any](e *Etcd, by *Conn, request func() (T, error)) (T, error) {
	e.by = by
	before := e.store.revision
	resp, err := request()
	e.by = nil
	if e.store.revision != before {
		for _, c := range e.conns {
			c.tell()
		}
	}
	return resp, err
}

// changed keeps the leases' keys.
func (e *Etcd) changed(ev *mvccpb.Event, before *mvccpb.KeyValue) {
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
		e.Changed(now, before, e.by)
	}
}

// refusal is why etcd does not carry out a transaction that it was asked for.
func (e *Etcd) refusal(r *pb.TxnRequest) error {
	if err := tooMany(r, e.MaxOps); err != nil {
		return err
	}
	if e.noSpace && e.full == 0 && takesSpace(r) {
		return rpctypes.ErrGRPCNoSpace
	}
	return nil
}

// afterwards is what etcd says all the same of a transaction that it has carried out.
func (e *Etcd) afterwards(r *pb.TxnRequest) error {
	if !e.noSpace || !takesSpace(r) {
		return nil
	}
	e.full--
	return rpctypes.ErrGRPCNoSpace
}

func tooMany(r *pb.TxnRequest, most int) error {
	n := max(len(r.Compare), len(r.Success), len(r.Failure))
	if n > most {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, op := range slices.Concat(r.Success, r.Failure) {
		if inner := op.GetRequestTxn(); inner != nil {
			if err := tooMany(inner, most-n); err != nil {
				return err
			}
		}
	}
	return nil
}

// takesSpace: whether it would or not in the end.
func takesSpace(r *pb.TxnRequest) bool {
	return slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool {
		inner := op.GetRequestTxn()
		return op.GetRequestPut() != nil || inner != nil && takesSpace(inner)
	})
}
