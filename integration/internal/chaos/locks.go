//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// counterPrefix is the prefix of the counters that the locks guard.
	counterPrefix = "/chaos/counter/"
	// lockWorkers is the number of a node's goroutines that work under locks.
	lockWorkers = 2
	// effectEvery is the interval of new effects. All nodes try each of them.
	effectEvery = 500 * time.Millisecond
	// effectTakes limits the duration of one effect.
	effectTakes = 300 * time.Millisecond
	// settlePatience limits the time, after the last fault, until every node has acquired every lock and every
	// effect has taken place.
	settlePatience = 40 * time.Second
)

// lockNames are the locks that all nodes compete for.
var lockNames = []string{"one", "two", "with/slash"}

// ledgerPath returns the file that effects write to.
func ledgerPath(dir string) string { return filepath.Join(dir, "ledger.jsonl") }

// lockUser is one node's work under locks, and its effects.
type lockUser struct {
	locks   *history.Locks
	work    history.LockWork
	effects *history.Effects
	fresh   history.EffectWork
}

func newLockUser(rec *history.Recorder, name string, c *cluster.Cluster, client *clientv3.Client,
	ledger *history.Ledger,
	began history.Instant) *lockUser {
	return &lockUser{locks: rec.Locks(name, c.Locks()), work: rec.NewLockWork(name, client, counterPrefix, lockNames...),
		effects: rec.Effects(name, c.Effects(), ledger), fresh: history.EffectWork{From: began, Every: effectEvery,
			Takes: effectTakes}}
}

// useLocks works until ctx ends.
func (l *lockUser) useLocks(ctx context.Context) {
	var wg sync.WaitGroup
	for range lockWorkers {
		wg.Go(func() { l.locks.Work(ctx, l.work, rand.New(rand.NewPCG(rand.Uint64(), 0))) })
	}
	wg.Go(func() { l.effects.Work(ctx, l.fresh, rand.New(rand.NewPCG(rand.Uint64(), 0))) })
	wg.Wait()
}

// settle acquires every lock once, and ensures that every effect so far has taken place.
func (l *lockUser) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	return errors.Join(l.locks.AcquireEach(ctx, lockNames...), l.effects.ResolveAll(ctx, l.fresh))
}

// settled makes all nodes settle concurrently.
func (w *world) settled(ctx context.Context) error {
	errs := make([]error, len(w.nodes))
	var wg sync.WaitGroup
	for i, n := range w.nodes {
		wg.Go(func() {
			said, err := n.askWithin(ctx, settlePatience+answerPatience, askSettle)
			if err == nil && said != saidSettled {
				err = fmt.Errorf("node %d: %s", n.index, said)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// deleteLockKey deletes a key by which the node holds a lock or waits for one. A holder must notice that by
// itself.
func deleteLockKey(ctx context.Context, w *world, n *chaosNode, _ *rand.Rand) error {
	until := time.Now().Add(effectPatience)
	for ; time.Now().Before(until) && ctx.Err() == nil; wait.For(ctx, time.Millisecond) {
		m := w.mirror.Snapshot().Member(n.address())
		if m == nil {
			continue
		}
		found, err := w.client.Get(ctx, w.keys.Locks().Root(), clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		if err != nil {
			return err
		}
		for _, kv := range found.Kvs {
			if _, queued := w.keys.Locks().QueueOf(string(kv.Key)); !queued || kv.Lease != m.Lease {
				continue
			}
			gone := false
			err := w.rec.Intervene(n.address(), history.LockDeleted, func() error {
				resp, err := w.client.Txn(ctx).
					If(clientv3.Compare(clientv3.CreateRevision(string(kv.Key)), "=", kv.CreateRevision)).
					Then(clientv3.OpDelete(string(kv.Key))).Commit()
				gone = err == nil && resp.Succeeded
				return err
			})
			if err != nil {
				return err
			}
			if gone {
				// The node checks its key every third of the TTL. No other fault may prevent that check.
				wait.For(ctx, time.Duration(w.cfg.TTL)*time.Second/3+500*time.Millisecond)
				return nil
			}
		}
	}
	return errNoEffect
}
