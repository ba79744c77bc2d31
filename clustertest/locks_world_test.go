package clustertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/clustertest/history"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/effects"
	"github.com/goverse/goverse/internal/etcdlock"
	"github.com/goverse/goverse/internal/etcdsession"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/state"
)

const (
	lockNodes, workersEach = 3, 2
	lockTTL                = 2 * time.Second
	// obtainable is by when everybody has had every lock, after the last fault, and then by when
	// every effect has taken place.
	obtainable = time.Minute
	counterAt  = "/counters/"
)

var lockNames = []string{"a", "b/c"}

// lockLimits are what a round is judged by: out-of-band changes are noticed within a third of
// the TTL, and what a busy machine adds.
var lockLimits = history.Limits{Exempt: map[string]time.Duration{history.LeaseRevoked: lockTTL/3 +
	time.Second, history.LockDeleted: lockTTL/3 + time.Second}}

// lockNode is what one process would have: a session, locks and effects, behind a relay of its
// own.
type lockNode struct {
	name    string
	relay   *fault.Relay
	client  *clientv3.Client
	faults  *Faults
	keeper  *etcdsession.Keeper
	locks   *etcdlock.Etcd
	effects *effects.Effects

	recorded *history.Locks
	work     history.LockWork
	entering *history.Effects
}

// lockWorld is an etcd and those who work under locks in it.
type lockWorld struct {
	dir      string
	keys     state.Keys
	etcd     *embedetcd.Server
	endpoint string
	client   *clientv3.Client // which no fault touches
	nodes    []*lockNode
	text     bytes.Buffer // the recorder writes under its lock, and Stop takes it
	rec      *history.Recorder
	ledger   *history.Ledger
	effects  history.EffectWork
	plant    plant
	busy     sync.RWMutex // held by what ends etcd, shared by what needs it

	life        context.Context
	cancel      context.CancelFunc
	wg          sync.WaitGroup // what lives as long as the world
	following   context.Context
	unfollow    context.CancelFunc
	followers   sync.WaitGroup
	followedErr chan error
}

// plant is what is wrong on purpose.
type plant struct {
	apart     bool // each node has locks and effects of its own
	unguarded bool // what is written under a lock is written under no condition
}

func newLockWorld(ctx context.Context, dir string, wrong plant) (_ *lockWorld, err error) {
	w := &lockWorld{dir: dir, plant: wrong, followedErr: make(chan error, len(lockNames))}
	w.life, w.cancel = context.WithCancel(context.Background())
	w.following, w.unfollow = context.WithCancel(context.Background())
	w.rec = history.NewRecorder(&w.text, "locks")
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.keys, err = state.NewKeys("/goverse"); err != nil {
		return nil, err
	}
	if err := w.startEtcd(ctx); err != nil {
		return nil, err
	}
	if w.client, err = clientv3.New(clientv3.Config{Endpoints: []string{w.endpoint}, Logger: zap.NewNop()}); err != nil {
		return nil, err
	}
	before, err := w.client.Get(ctx, counterAt)
	if err != nil {
		return nil, err
	}
	for _, name := range lockNames {
		r := w.rec.Counter("etcd", w.client, counterAt+name, name)
		w.followers.Go(func() { w.followedErr <- r.Follow(w.following, before.Header.Revision+1) })
	}
	if w.ledger, err = history.OpenLedger(filepath.Join(dir, "ledger.jsonl")); err != nil {
		return nil, err
	}
	w.effects = history.EffectWork{From: history.Now(), Every: 250 * time.Millisecond, Takes: 400 * time.Millisecond}
	for i := range lockNodes {
		if err := w.addNode(fmt.Sprint("node", i)); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// startEtcd starts it, again on its data and its port.
func (w *lockWorld) startEtcd(ctx context.Context) (err error) {
	cfg := embedetcd.TestTiming(embedetcd.Config{DataDir: filepath.Join(w.dir, "etcd"), ListenClient: w.endpoint})
	if w.etcd, err = embedetcd.Start(ctx, cfg); err == nil {
		w.endpoint = w.etcd.Endpoint()
	}
	return err
}

func (w *lockWorld) addNode(name string) (err error) {
	n := &lockNode{name: name}
	w.nodes = append(w.nodes, n)
	if n.relay, err = fault.NewRelay(strings.TrimPrefix(w.endpoint, "http://")); err != nil {
		return err
	}
	if n.client, err = clientv3.New(clientv3.Config{Endpoints: []string{n.relay.Address()},
		Logger: zap.NewNop()}); err != nil {
		return err
	}
	n.faults = Inject(n.client)
	keys := w.keys
	if w.plant.apart {
		if keys, err = state.NewKeys("/" + name); err != nil {
			return err
		}
	}
	const timeout = time.Second // a machine that is busy for less is no fault
	if n.keeper, err = etcdsession.NewKeeper(etcdsession.KeeperConfig{Config: etcdsession.Config{Client: n.client,
		TTL: lockTTL}}); err != nil {
		return err
	}
	queues := leasequeue.Config{Client: n.client, Keeper: n.keeper, RequestTimeout: timeout}
	if n.locks, err = etcdlock.NewEtcd(etcdlock.Config{Config: queues, Queues: keys.Locks(), Owner: name}); err != nil {
		return err
	}
	if n.effects, err = effects.New(effects.Config{Config: queues, Keys: keys, Owner: name}); err != nil {
		return err
	}
	w.wg.Go(func() { _ = n.keeper.Run(w.life) })
	w.wg.Go(func() { n.locks.Run(w.life) })
	w.wg.Go(func() { n.effects.Run(w.life) })
	var registry lock.LockRegistry = n.locks
	if w.plant.unguarded {
		registry = unguarded{registry}
	}
	n.recorded = w.rec.Locks(name, registry)
	n.work = w.rec.NewLockWork(name, n.client, counterAt, lockNames...)
	n.work.Pause = 20 * time.Millisecond
	n.entering = w.rec.Effects(name, n.effects, w.ledger)
	return nil
}

// unguarded hands out locks without their guard.
type unguarded struct{ lock.LockRegistry }

func (u unguarded) Acquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, error) {
	h, err := u.LockRegistry.Acquire(ctx, name, opts...)
	if err != nil {
		return nil, err
	}
	return bare{h}, nil
}

func (u unguarded) TryAcquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, bool, error) {
	h, ok, err := u.LockRegistry.TryAcquire(ctx, name, opts...)
	if !ok {
		return nil, false, err
	}
	return bare{h}, true, nil
}

// bare is a lock without its guard.
type bare struct{ lock.Held }

func (bare) Guard() []clientv3.Cmp { return nil }

// work has every node work until ctx ends, and returns when all have ended.
func (w *lockWorld) work(ctx context.Context, rnd *rand.Rand) {
	var wg sync.WaitGroup
	for _, n := range w.nodes {
		for range workersEach {
			own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
			wg.Go(func() { n.recorded.Work(ctx, n.work, own) })
		}
		own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		wg.Go(func() { n.entering.Work(ctx, w.effects, own) })
	}
	wg.Wait()
}

// obtain reports whether, when all faults are undone, every node gets every lock while the
// others work on.
func (w *lockWorld) obtain(ctx context.Context) error {
	return w.each(ctx, func(ctx context.Context, n *lockNode) error { return n.recorded.Obtain(ctx, lockNames...) })
}

// settle reports whether every effect takes place, as every node sees it.
func (w *lockWorld) settle(ctx context.Context) error {
	return w.each(ctx, func(ctx context.Context, n *lockNode) error { return n.entering.SettleAll(ctx, w.effects) })
}

func (w *lockWorld) each(ctx context.Context, do func(context.Context, *lockNode) error) error {
	ctx, cancel := context.WithTimeout(ctx, obtainable)
	defer cancel()
	errs := make([]error, len(w.nodes))
	var wg sync.WaitGroup
	for i, n := range w.nodes {
		wg.Go(func() {
			if err := do(ctx, n); err != nil {
				errs[i] = fmt.Errorf("after the faults, %s: %w", n.name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// heal undoes all faults of a node's.
func (n *lockNode) heal() error {
	n.faults.clear()
	return n.relay.Heal()
}

// judge is what was recorded, to be called when nobody works any more.
func (w *lockWorld) judge(limits history.Limits) (history.Verdict, error) {
	w.unfollow()
	w.followers.Wait()
	close(w.followedErr)
	var errs []error
	for err := range w.followedErr {
		errs = append(errs, err)
	}
	errs = append(errs, w.rec.Stop())
	told, err := history.Read(&w.text)
	errs = append(errs, err)
	ledger, err := history.ReadFiles(filepath.Join(w.dir, "ledger.jsonl"))
	if err := errors.Join(append(errs, err)...); err != nil {
		return history.Verdict{}, err
	}
	return history.Check(history.Merge(told, ledger), limits), nil
}

// close ends everything.
func (w *lockWorld) close() error {
	w.unfollow()
	w.followers.Wait()
	errs := []error{w.rec.Stop()}
	w.cancel()
	w.wg.Wait()
	for _, n := range w.nodes {
		if n.client != nil {
			_ = n.client.Close() // its error is that its context was cancelled
		}
		if n.relay != nil {
			n.relay.Close()
		}
	}
	if w.client != nil {
		_ = w.client.Close()
	}
	if w.ledger != nil {
		errs = append(errs, w.ledger.Close())
	}
	if w.etcd != nil {
		errs = append(errs, w.etcd.Close())
	}
	return errors.Join(errs...)
}
