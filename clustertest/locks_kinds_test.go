package clustertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/clustertest/history"
)

// lockFault is one kind of fault. do does one to a node and undoes it; it reports whether it
// had an effect.
type lockFault struct {
	name string
	do   func(ctx context.Context, w *lockWorld, n *lockNode, rnd *rand.Rand) (bool, error)
}

// lockFaults are all kinds.
func lockFaults() []lockFault {
	return []lockFault{
		{"cut off until the session is lost", lost(func(n *lockNode) { n.relay.Blackhole(fault.Both) })},
		{"requests dropped until the session is lost", lost(func(n *lockNode) { n.relay.Blackhole(fault.ToTarget) })},
		{"answers dropped until the session is lost", lost(func(n *lockNode) { n.relay.Blackhole(fault.FromTarget) })},
		{"renewals stuck until the session is lost", lost(func(n *lockNode) { n.faults.StopRenewing() })},
		{"requests dropped for a moment", briefly(func(n *lockNode) { n.relay.Blackhole(fault.ToTarget) })},
		{"answers dropped for a moment", briefly(func(n *lockNode) { n.relay.Blackhole(fault.FromTarget) })},
		{"refused by etcd's address", refused},
		{"connections reset", briefly(func(n *lockNode) { n.relay.Reset(fault.Both) })},
		{"delayed", delayed},
		{"session suspended", suspended},
		{"watch frozen", watchFrozen},
		{"answers lost", answersLost},
		{"requests carried out late", carriedOutLate},
		{"requests refused", requestsRefused},
		{"lease revoked out of band", leaseRevoked},
		{"lock's key deleted out of band", lockDeleted},
		{"etcd restarted", etcdRestarted},
		{"compaction under load", compacted},
	}
}

// last lets a fault last.
func last(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func between(rnd *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rnd.Int64N(int64(most-least)))
}

// lost lasts until the node has lost its session, and a moment more.
func lost(begin func(*lockNode)) func(context.Context, *lockWorld, *lockNode, *rand.Rand) (bool, error) {
	return func(ctx context.Context, w *lockWorld, n *lockNode, rnd *rand.Rand) (bool, error) {
		s, err := n.keeper.Wait(ctx, nil)
		if err != nil {
			return false, err
		}
		defer w.rec.Begin(n.name, "lost", "")()
		begin(n)
		select {
		case <-s.Done():
		case <-ctx.Done():
		}
		last(ctx, between(rnd, 0, time.Second))
		return ctx.Err() == nil, n.heal()
	}
}

// briefly lasts for less than the session.
func briefly(begin func(*lockNode)) func(context.Context, *lockWorld, *lockNode, *rand.Rand) (bool, error) {
	return func(ctx context.Context, w *lockWorld, n *lockNode, rnd *rand.Rand) (bool, error) {
		defer w.rec.Begin(n.name, "briefly", "")()
		before := n.relay.Traffic(fault.Both).Received
		begin(n)
		last(ctx, between(rnd, 50*time.Millisecond, lockTTL/2))
		err := n.heal()
		last(ctx, 50*time.Millisecond)
		return n.relay.Traffic(fault.Both).Received > before, err
	}
}

// refused: its connections break, and no new one is taken.
func refused(ctx context.Context, w *lockWorld, n *lockNode, rnd *rand.Rand) (bool, error) {
	defer w.rec.Begin(n.name, "refused", "")()
	had := n.relay.Connections()
	n.relay.Refuse()
	last(ctx, between(rnd, 50*time.Millisecond, lockTTL/2))
	return had > 0, n.heal()
}

func delayed(ctx context.Context, w *lockWorld, n *lockNode, rnd *rand.Rand) (bool, error) {
	there, back := between(rnd, 0, 300*time.Millisecond), between(rnd, 0, 300*time.Millisecond)
	return briefly(func(n *lockNode) {
		n.relay.Delay(fault.ToTarget, there)
		n.relay.Delay(fault.FromTarget, back)
	})(ctx, w, n, rnd)
}

// suspended: etcd does not confirm the session for a moment, in which nothing may be claimed.
func suspended(ctx context.Context, w *lockWorld, n *lockNode, rnd *rand.Rand) (bool, error) {
	s, err := n.keeper.Wait(ctx, nil)
	if err != nil {
		return false, err
	}
	defer w.rec.Begin(n.name, "suspended", "")()
	n.faults.CutOff()
	s.Suspect(10 * time.Millisecond)
	last(ctx, between(rnd, 20*time.Millisecond, lockTTL/2))
	effect := !s.Valid()
	return effect, n.heal()
}

func watchFrozen(ctx context.Context, w *lockWorld, n *lockNode, rnd *rand.Rand) (bool, error) {
	defer w.rec.Begin(n.name, "watch frozen", "")()
	n.faults.FreezeWatch()
	last(ctx, between(rnd, lockTTL/4, lockTTL))
	return true, n.heal()
}

// answersLost: what is written for locks and effects is carried out, and nobody says so.
func answersLost(ctx context.Context, w *lockWorld, n *lockNode, rnd *rand.Rand) (bool, error) {
	defer w.rec.Begin(n.name, "answers lost", "")()
	for range 4 {
		n.faults.LoseAnswer(OpWrite, w.some(rnd))
	}
	last(ctx, between(rnd, 500*time.Millisecond, lockTTL))
	return true, n.heal()
}

// carriedOutLate: requests that were long given up reach etcd after others that were sent
// later.
func carriedOutLate(ctx context.Context, w *lockWorld, n *lockNode, rnd *rand.Rand) (bool, error) {
	defer w.rec.Begin(n.name, "carried out late", "")()
	var late []*Held
	for range 4 {
		late = append(late, n.faults.HoldNext(OpWrite, w.some(rnd)))
	}
	last(ctx, between(rnd, 500*time.Millisecond, lockTTL))
	err := n.heal()
	effect := false
	for _, h := range late {
		select {
		case <-h.Caught():
			effect = true
			attempt, cancel := context.WithTimeout(ctx, time.Second)
			_ = h.Release(attempt) // its session may have ended
			cancel()
		default:
		}
	}
	return effect, err
}

// requestsRefused: etcd has no time.
func requestsRefused(ctx context.Context, w *lockWorld, n *lockNode, rnd *rand.Rand) (bool, error) {
	defer w.rec.Begin(n.name, "refused", "")()
	for range 6 {
		n.faults.FailNext(OpWrite, []error{rpctypes.ErrTimeout, rpctypes.ErrNoSpace,
			rpctypes.ErrTooManyRequests}[rnd.IntN(3)], w.some(rnd))
	}
	last(ctx, between(rnd, 300*time.Millisecond, lockTTL/2))
	return true, n.heal()
}

// some are the requests of one sort that locks and effects make.
func (w *lockWorld) some(rnd *rand.Rand) Match {
	switch name := lockNames[rnd.IntN(len(lockNames))]; rnd.IntN(6) {
	case 0:
		return Putting(w.keys.Locks().Queue(name))
	case 1:
		return Deleting(w.keys.Locks().Queue(name))
	case 2:
		return Putting(w.keys.Effects().Root())
	case 3:
		return Deleting(w.keys.Effects().Root())
	case 4:
		return Putting(counterAt)
	default:
		return Putting(w.keys.EffectMark(""))
	}
}

func leaseRevoked(ctx context.Context, w *lockWorld, n *lockNode, _ *rand.Rand) (bool, error) {
	s, err := n.keeper.Wait(ctx, nil)
	if err != nil {
		return false, err
	}
	w.busy.RLock()
	defer w.busy.RUnlock()
	err = w.rec.Do(n.name, history.LeaseRevoked, func() error {
		_, err := w.client.Revoke(ctx, s.ID())
		return err
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return false, nil // it was lost just then
	}
	if err == nil {
		_, err = n.keeper.Wait(ctx, s)
	}
	return err == nil, err
}

// lockDeleted: somebody deletes a key by which the node holds a lock or waits for it.
func lockDeleted(ctx context.Context, w *lockWorld, n *lockNode, _ *rand.Rand) (bool, error) {
	w.busy.RLock()
	defer w.busy.RUnlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		s, err := n.keeper.Wait(ctx, nil)
		if err != nil {
			return false, nil // etcd is away
		}
		found, err := w.client.Get(ctx, w.keys.Locks().Root(), clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		if err != nil {
			return false, nil
		}
		for _, kv := range found.Kvs {
			if _, queued := w.keys.Locks().QueueOf(string(kv.Key)); !queued || clientv3.LeaseID(kv.Lease) != s.ID() {
				continue
			}
			deleted := int64(0)
			err := w.rec.Do(n.name, history.LockDeleted, func() error {
				resp, err := w.client.Delete(ctx, string(kv.Key))
				if err == nil {
					deleted = resp.Deleted
				}
				return err
			})
			if err != nil || deleted > 0 {
				return err == nil, nil
			}
		}
		last(ctx, 5*time.Millisecond)
	}
	return false, nil
}

// etcdRestarted: etcd ends, stays away for a while, and returns on its data.
func etcdRestarted(ctx context.Context, w *lockWorld, _ *lockNode, rnd *rand.Rand) (bool, error) {
	w.busy.Lock()
	defer w.busy.Unlock()
	defer w.rec.Begin("", "etcd restarted", "")()
	if err := w.etcd.Close(); err != nil {
		return false, err
	}
	last(ctx, between(rnd, 0, lockTTL+time.Second))
	return true, w.startEtcd(ctx)
}

// compacted: many writes, and everything before them compacted away.
func compacted(ctx context.Context, w *lockWorld, _ *lockNode, rnd *rand.Rand) (bool, error) {
	w.busy.RLock()
	defer w.busy.RUnlock()
	defer w.rec.Begin("", "compaction", "")()
	churn, err := fault.StartChurn(ctx, w.client, fault.ChurnConfig{Prefix: "/load/", WritesPerSecond: 200})
	if err != nil {
		return false, err
	}
	last(ctx, between(rnd, 500*time.Millisecond, 1500*time.Millisecond))
	err = churn.Stop(ctx)
	return churn.Stats().Compactions > 0, err
}
