//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/faults"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/test/schedule"
	"github.com/goverse/goverse/internal/wait"
)

// revokeLease revokes the lease of a node's session.
func revokeLease(ctx context.Context, w *world, n *chaosNode, _ *rand.Rand) error {
	m := w.mirror.Snapshot().Member(n.address())
	if m == nil {
		return errNoEffect
	}
	from := history.Now()
	_, err := w.client.Revoke(ctx, clientv3.LeaseID(m.Lease))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return errNoEffect // it expired just now by itself: no exemption
	}
	w.rec.Mark(history.Mark{Node: n.address(), Name: history.LeaseRevoked, From: from, To: history.Now()})
	if err != nil {
		return err
	}
	return n.awaitBack(ctx, m.Incarnation)
}

// deleteKey deletes a candidate's key. Its lease lives on.
func deleteKey(ctx context.Context, w *world, n *chaosNode, _ *rand.Rand) error {
	s := w.mirror.Snapshot()
	m := s.Member(n.address())
	if m == nil {
		return errNoEffect
	}
	before, _ := s.CandidateOn(m.Lease)
	if before == nil {
		return errNoEffect
	}
	if err := w.rec.Intervene(n.address(), history.KeyDeleted, func() error {
		resp, err := w.client.Delete(ctx, before.Key)
		if err == nil && resp.Deleted == 0 {
			err = errNoEffect
		}
		return err
	}); err != nil {
		return err
	}
	_, err := w.awaitSnapshot(ctx, effectPatience, fmt.Sprintf("node %d queues again", n.index),
		func(s *state.Snapshot) bool {
			m := s.Member(n.address())
			if m == nil {
				return false
			}
			c, _ := s.CandidateOn(m.Lease)
			return c != nil && c.CreateRevision > before.CreateRevision
		})
	return err
}

// freezeWatch freezes a node's watch, which then delivers no events while requests work and the cluster's state
// changes, if only by an unused key. The node must detect by itself that its snapshot lags, and read again.
func freezeWatch(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
	end := w.rec.BeginFault(n.address(), faults.WatchFrozen.Name, "")
	defer end()
	before, err := n.status(ctx)
	if err != nil {
		return err
	}
	if _, err := n.ask(ctx, askFreezeWatch); err != nil {
		return err
	}
	ttl := time.Duration(w.cfg.TTL) * time.Second
	for until := time.Now().Add(schedule.Between(rnd, ttl, ttl*3/2)); time.Now().Before(until); {
		if _, err := w.client.Put(ctx, tickKey, ""); err != nil {
			return err
		}
		wait.For(ctx, 100*time.Millisecond)
	}
	if _, err := n.ask(ctx, askThawWatch); err != nil {
		return err
	}
	for deadline := time.Now().Add(ttl); ; {
		now, err := n.status(ctx)
		switch {
		case err != nil:
			return err
		case now.Rebuilds > before.Rebuilds:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("node %d did not notice that its watch was frozen", n.index)
		}
		wait.For(ctx, pollInterval)
	}
}

// killMember kills one member of etcd, usually the one that leads it.
func killMember(ctx context.Context, w *world, _ *chaosNode, rnd *rand.Rand) error {
	end := w.rec.BeginFault("", "etcd member killed", "")
	defer end()
	m := w.members[rnd.IntN(len(w.members))]
	if l := w.etcdLeader(ctx); l != nil && rnd.IntN(2) == 0 {
		m = l
	}
	if _, err := m.currentProcess().Kill(); err != nil {
		return err
	}
	if err := w.awaitEtcdAnswers(ctx); err != nil { // the others answer
		return err
	}
	wait.For(ctx, schedule.Between(rnd, 0, 1500*time.Millisecond))
	if err := m.start(); err != nil {
		return err
	}
	return errors.Join(w.awaitEtcdAnswers(ctx), w.awaitMembersJoined(ctx))
}

// restartEtcd kills all of etcd and, after a while, starts it again with its data.
func restartEtcd(ctx context.Context, w *world, _ *chaosNode, rnd *rand.Rand) error {
	end := w.rec.BeginFault("", "etcd restarted", "")
	defer end()
	errs := make([]error, len(w.members))
	var wg sync.WaitGroup
	for i, m := range w.members {
		wg.Go(func() { _, errs[i] = m.currentProcess().Kill() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	wait.For(ctx, schedule.Between(rnd, 0, 2*time.Duration(w.cfg.TTL)*time.Second))
	for _, m := range w.members {
		if err := m.start(); err != nil {
			return err
		}
	}
	return errors.Join(w.awaitEtcdAnswers(ctx), w.awaitMembersJoined(ctx))
}

// freezeEtcd freezes the only member of etcd, at times for longer than the TTL.
func freezeEtcd(ctx context.Context, w *world, _ *chaosNode, rnd *rand.Rand) error {
	end := w.rec.BeginFault("", "etcd stopped", "")
	defer end()
	m := w.members[0]
	if _, err := m.currentProcess().Freeze(); err != nil {
		return err
	}
	wait.For(ctx, schedule.Between(rnd, 0, 2*time.Duration(w.cfg.TTL)*time.Second))
	_, err := m.currentProcess().Thaw()
	return errors.Join(err, w.awaitEtcdAnswers(ctx), w.awaitMembersJoined(ctx))
}

// compactHistory makes many writes and compacts etcd's history meanwhile.
func compactHistory(ctx context.Context, w *world, _ *chaosNode, rnd *rand.Rand) error {
	end := w.rec.BeginFault("", "compaction", "")
	defer end()
	churn, err := fault.StartChurn(ctx, w.client, fault.ChurnConfig{Prefix: "/chaos/load/"})
	if err != nil {
		return err
	}
	wait.For(ctx, schedule.Between(rnd, 300*time.Millisecond, time.Second))
	err = churn.Stop(ctx)
	if err == nil && churn.Stats().Compactions == 0 {
		err = errNoEffect
	}
	return err
}
