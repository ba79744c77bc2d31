package etcdlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/test/faults"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/test/schedule"
	"github.com/goverse/goverse/internal/wait"
)

// lockFault is one kind of fault. do applies it to a node and undoes it. It reports whether it had an effect.
type lockFault struct {
	name string
	do   func(ctx context.Context, bed *lockTestBed, n *lockNode, rnd *rand.Rand) (bool, error)
}

// lockFaults returns all kinds. Faults on the way to etcd come from the catalogue in package faults.
func lockFaults() []lockFault {
	return []lockFault{
		untilSessionLost(faults.CutOff),
		untilSessionLost(faults.RequestsDropped),
		untilSessionLost(faults.AnswersDropped),
		untilSessionLost(faults.RenewalsStuck),
		briefly(faults.RequestsDropped),
		briefly(faults.AnswersDropped),
		{faults.Refused.Name, refused},
		briefly(faults.Reset),
		briefly(faults.Delayed),
		{"session suspended", suspended},
		{faults.WatchFrozen.Name, watchFrozen},
		{"answers lost", answersLost},
		{"requests carried out late", carriedOutLate},
		{"requests refused", requestsRefused},
		{schedule.LeaseRevoked, leaseRevoked},
		{schedule.LockKeyDeleted, lockDeleted},
		{"etcd restarted", etcdRestarted},
		{schedule.CompactionUnderLoad, compacted},
	}
}

// untilSessionLost lasts until the node has lost its session, and a moment longer.
func untilSessionLost(f faults.Fault) lockFault {
	name := f.Name + " until the session is lost"
	return lockFault{name, func(ctx context.Context, bed *lockTestBed, n *lockNode, rnd *rand.Rand) (bool, error) {
		s, err := n.keeper.Wait(ctx, nil)
		if err != nil {
			return false, err
		}
		defer bed.rec.BeginFault(n.name, name, "")()
		f.Begin(n.toEtcd(), rnd)
		select {
		case <-s.Done():
		case <-ctx.Done():
		}
		wait.For(ctx, schedule.Between(rnd, 0, time.Second))
		return ctx.Err() == nil, n.toEtcd().EndFaults()
	}}
}

// briefly lasts for less than the session.
func briefly(f faults.Fault) lockFault {
	name := f.Name + " for a moment"
	return lockFault{name, func(ctx context.Context, bed *lockTestBed, n *lockNode, rnd *rand.Rand) (bool, error) {
		defer bed.rec.BeginFault(n.name, name, "")()
		before := n.toEtcd().Traffic()
		f.Begin(n.toEtcd(), rnd)
		wait.For(ctx, schedule.Between(rnd, 50*time.Millisecond, lockTTL/2))
		err := n.toEtcd().EndFaults()
		wait.For(ctx, 50*time.Millisecond)
		return n.toEtcd().Traffic() > before, err
	}}
}

// refused breaks the node's connections and accepts no new ones.
func refused(ctx context.Context, bed *lockTestBed, n *lockNode, rnd *rand.Rand) (bool, error) {
	defer bed.rec.BeginFault(n.name, faults.Refused.Name, "")()
	had := n.toEtcd().Connections()
	faults.Refused.Begin(n.toEtcd(), rnd)
	wait.For(ctx, schedule.Between(rnd, 50*time.Millisecond, lockTTL/2))
	return had > 0, n.toEtcd().EndFaults()
}

// suspended keeps etcd from confirming the session for a moment, in which the node must claim nothing.
func suspended(ctx context.Context, bed *lockTestBed, n *lockNode, rnd *rand.Rand) (bool, error) {
	s, err := n.keeper.Wait(ctx, nil)
	if err != nil {
		return false, err
	}
	defer bed.rec.BeginFault(n.name, "suspended", "")()
	faults.RequestsStuck.Begin(n.toEtcd(), rnd)
	s.Suspect(0, 10*time.Millisecond)
	wait.For(ctx, schedule.Between(rnd, 20*time.Millisecond, lockTTL/2))
	effect := !s.Valid()
	return effect, n.toEtcd().EndFaults()
}

func watchFrozen(ctx context.Context, bed *lockTestBed, n *lockNode, rnd *rand.Rand) (bool, error) {
	defer bed.rec.BeginFault(n.name, faults.WatchFrozen.Name, "")()
	faults.WatchFrozen.Begin(n.toEtcd(), rnd)
	wait.For(ctx, schedule.Between(rnd, lockTTL/4, lockTTL))
	return true, n.toEtcd().EndFaults()
}

// answersLost loses the answers to writes of locks and effects that were committed.
func answersLost(ctx context.Context, bed *lockTestBed, n *lockNode, rnd *rand.Rand) (bool, error) {
	defer bed.rec.BeginFault(n.name, "answers lost", "")()
	for range 4 {
		n.faults.LoseAnswer(etcdfault.OpWrite, bed.some(rnd))
	}
	wait.For(ctx, schedule.Between(rnd, 500*time.Millisecond, lockTTL))
	return true, n.toEtcd().EndFaults()
}

// carriedOutLate delays requests until long after they were abandoned and later requests were committed.
func carriedOutLate(ctx context.Context, bed *lockTestBed, n *lockNode, rnd *rand.Rand) (bool, error) {
	defer bed.rec.BeginFault(n.name, "carried out late", "")()
	var late []*etcdfault.Held
	for range 4 {
		late = append(late, n.faults.HoldNext(etcdfault.OpWrite, bed.some(rnd)))
	}
	wait.For(ctx, schedule.Between(rnd, 500*time.Millisecond, lockTTL))
	err := n.toEtcd().EndFaults()
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

// requestsRefused makes etcd refuse requests as if overloaded.
func requestsRefused(ctx context.Context, bed *lockTestBed, n *lockNode, rnd *rand.Rand) (bool, error) {
	defer bed.rec.BeginFault(n.name, "refused", "")()
	for range 6 {
		n.faults.FailNext(etcdfault.OpWrite, []error{rpctypes.ErrTimeout, rpctypes.ErrNoSpace,
			rpctypes.ErrTooManyRequests}[rnd.IntN(3)], bed.some(rnd))
	}
	wait.For(ctx, schedule.Between(rnd, 300*time.Millisecond, lockTTL/2))
	return true, n.toEtcd().EndFaults()
}

// some returns a match for one kind of request of locks and effects.
func (bed *lockTestBed) some(rnd *rand.Rand) etcdfault.Match {
	switch name := lockNames[rnd.IntN(len(lockNames))]; rnd.IntN(6) {
	case 0:
		return etcdfault.Putting(bed.keys.Locks().QueuePrefix(name))
	case 1:
		return etcdfault.Deleting(bed.keys.Locks().QueuePrefix(name))
	case 2:
		return etcdfault.Putting(bed.keys.Effects().Root())
	case 3:
		return etcdfault.Deleting(bed.keys.Effects().Root())
	case 4:
		return etcdfault.Putting(counterAt)
	default:
		return etcdfault.Putting(bed.keys.EffectMark(""))
	}
}

func leaseRevoked(ctx context.Context, bed *lockTestBed, n *lockNode, _ *rand.Rand) (bool, error) {
	s, err := n.keeper.Wait(ctx, nil)
	if err != nil {
		return false, err
	}
	bed.busy.RLock()
	defer bed.busy.RUnlock()
	err = bed.rec.Intervene(n.name, history.LeaseRevoked, func() error {
		_, err := bed.client.Revoke(ctx, s.ID())
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

// lockDeleted deletes a key by which the node holds a lock or waits for it.
func lockDeleted(ctx context.Context, bed *lockTestBed, n *lockNode, _ *rand.Rand) (bool, error) {
	bed.busy.RLock()
	defer bed.busy.RUnlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		s, err := n.keeper.Wait(ctx, nil)
		if err != nil {
			return false, nil // etcd is away
		}
		found, err := bed.client.Get(ctx, bed.keys.Locks().Root(), clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		if err != nil {
			return false, nil
		}
		for _, kv := range found.Kvs {
			if _, queued := bed.keys.Locks().QueueOf(string(kv.Key)); !queued || clientv3.LeaseID(kv.Lease) != s.ID() {
				continue
			}
			deleted := int64(0)
			err := bed.rec.Intervene(n.name, history.LockDeleted, func() error {
				resp, err := bed.client.Delete(ctx, string(kv.Key))
				if err == nil {
					deleted = resp.Deleted
				}
				return err
			})
			if err != nil || deleted > 0 {
				return err == nil, nil
			}
		}
		wait.For(ctx, 5*time.Millisecond)
	}
	return false, nil
}

// etcdRestarted stops etcd, waits for a while, and restarts it on its data.
func etcdRestarted(ctx context.Context, bed *lockTestBed, _ *lockNode, rnd *rand.Rand) (bool, error) {
	bed.busy.Lock()
	defer bed.busy.Unlock()
	defer bed.rec.BeginFault("", "etcd restarted", "")()
	if err := bed.etcd.Close(); err != nil {
		return false, err
	}
	wait.For(ctx, schedule.Between(rnd, 0, lockTTL+time.Second))
	return true, bed.startEtcd(ctx)
}

// compacted makes many writes and compacts everything before them.
func compacted(ctx context.Context, bed *lockTestBed, _ *lockNode, rnd *rand.Rand) (bool, error) {
	bed.busy.RLock()
	defer bed.busy.RUnlock()
	defer bed.rec.BeginFault("", "compaction", "")()
	churn, err := fault.StartChurn(ctx, bed.client, fault.ChurnConfig{Prefix: "/load/", WritesPerSecond: 200})
	if err != nil {
		return false, err
	}
	wait.For(ctx, schedule.Between(rnd, 500*time.Millisecond, 1500*time.Millisecond))
	err = churn.Stop(ctx)
	return churn.Stats().Compactions > 0, err
}
