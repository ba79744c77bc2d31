package etcdlock_test

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
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/effects"
	"github.com/goverse/goverse/internal/leasequeue/etcdlock"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/faults"
	"github.com/goverse/goverse/internal/test/history"
)

const (
	lockNodes, workersEach = 3, 2
	lockTTL                = 2 * time.Second
	// obtainable limits the time until every node has had every lock after the last fault, and then the time
	// until every effect has taken place.
	obtainable = time.Minute
	counterAt  = "/counters/"
)

var lockNames = []string{"a", "b/c"}

// lockLimits holds the limits for judging a round: out-of-band changes must be noticed within a third of the
// TTL, plus an allowance for a busy machine.
var lockLimits = history.Limits{Exempt: map[string]time.Duration{history.LeaseRevoked: lockTTL/3 +
	time.Second, history.LockDeleted: lockTTL/3 + time.Second}}

// lockNode stands for one process: a session, locks and effects, behind a relay of its own.
type lockNode struct {
	name    string
	relay   *fault.Relay
	client  *clientv3.Client
	faults  *etcdfault.Faults
	keeper  *etcdsession.Keeper
	locks   *etcdlock.Registry
	effects *effects.Effects

	recorded *history.Locks
	work     history.LockWork
	entering *history.Effects
}

// lockTestBed is an etcd and the nodes that work under locks in it.
type lockTestBed struct {
	dir      string
	keys     state.Keys
	etcd     *etcdtest.Server
	endpoint string
	client   *clientv3.Client // without faults
	nodes    []*lockNode
	text     bytes.Buffer // the recorder writes under its lock, and Stop takes it
	rec      *history.Recorder
	ledger   *history.Ledger
	effects  history.EffectWork
	mutant   lockMutant
	busy     sync.RWMutex // held by faults that end etcd, shared by faults that need it

	life        context.Context
	cancel      context.CancelFunc
	wg          sync.WaitGroup // goroutines that live as long as the test bed
	following   context.Context
	unfollow    context.CancelFunc
	followers   sync.WaitGroup
	followedErr chan error
}

// lockMutant is a bug that the judgement of the rounds must find.
type lockMutant struct {
	apart     bool // each node has its own locks and effects
	unguarded bool // writes under a lock have no condition
}

func newLockTestBed(ctx context.Context, dir string, mutant lockMutant) (_ *lockTestBed, err error) {
	bed := &lockTestBed{dir: dir, mutant: mutant, followedErr: make(chan error, len(lockNames))}
	bed.life, bed.cancel = context.WithCancel(context.Background())
	bed.following, bed.unfollow = context.WithCancel(context.Background())
	bed.rec = history.NewRecorder(&bed.text, "locks")
	defer func() {
		if err != nil {
			err = errors.Join(err, bed.close())
		}
	}()
	if bed.keys, err = state.NewKeys("/goverse"); err != nil {
		return nil, err
	}
	if err := bed.startEtcd(ctx); err != nil {
		return nil, err
	}
	if bed.client, err = clientv3.New(clientv3.Config{Endpoints: []string{bed.endpoint},
		Logger: zap.NewNop()}); err != nil {
		return nil, err
	}
	before, err := bed.client.Get(ctx, counterAt)
	if err != nil {
		return nil, err
	}
	for _, name := range lockNames {
		r := bed.rec.Counter("etcd", bed.client, counterAt+name, name)
		bed.followers.Go(func() { bed.followedErr <- r.Follow(bed.following, before.Header.Revision+1) })
	}
	if bed.ledger, err = history.OpenLedger(filepath.Join(dir, "ledger.jsonl")); err != nil {
		return nil, err
	}
	bed.effects = history.EffectWork{From: history.Now(), Every: 250 * time.Millisecond, Takes: 400 * time.Millisecond}
	for i := range lockNodes {
		if err := bed.addNode(fmt.Sprint("node", i)); err != nil {
			return nil, err
		}
	}
	return bed, nil
}

// startEtcd starts etcd, or restarts it on its data and its port.
func (bed *lockTestBed) startEtcd(ctx context.Context) (err error) {
	cfg := etcdtest.Config{DataDir: filepath.Join(bed.dir, "etcd"), ListenClient: bed.endpoint}
	if bed.etcd, err = etcdtest.StartWith(ctx, cfg); err == nil {
		bed.endpoint = bed.etcd.Endpoint()
	}
	return err
}

func (bed *lockTestBed) addNode(name string) (err error) {
	n := &lockNode{name: name}
	bed.nodes = append(bed.nodes, n)
	if n.relay, err = fault.NewRelay(strings.TrimPrefix(bed.endpoint, "http://")); err != nil {
		return err
	}
	if n.client, err = clientv3.New(clientv3.Config{Endpoints: []string{n.relay.Address()},
		Logger: zap.NewNop()}); err != nil {
		return err
	}
	n.faults = etcdfault.Inject(n.client)
	keys := bed.keys
	if bed.mutant.apart {
		if keys, err = state.NewKeys("/" + name); err != nil {
			return err
		}
	}
	const timeout = time.Second // a shorter delay by a busy machine is no fault
	if n.keeper, err = etcdsession.NewKeeper(etcdsession.Config{Process: etcd.Process{Client: n.client},
		TTL: lockTTL}, etcdsession.Hooks{}); err != nil {
		return err
	}
	queues, err := leasequeue.New(leasequeue.Config{Process: etcd.Process{Client: n.client, RequestTimeout: timeout},
		Keeper: n.keeper},
		keys.Locks())
	if err != nil {
		return err
	}
	n.locks = etcdlock.NewRegistry(queues.Queues(keys.Locks()), name)
	if n.effects, err = effects.New(effects.Config{Queues: queues.Queues(keys.Effects()), Keys: keys,
		Owner: name}); err != nil {
		return err
	}
	bed.wg.Go(func() { _ = n.keeper.Run(bed.life) })
	bed.wg.Go(func() { queues.Run(bed.life) })
	var registry lock.LockRegistry = n.locks
	if bed.mutant.unguarded {
		registry = unguarded{registry}
	}
	n.recorded = bed.rec.Locks(name, registry)
	n.work = bed.rec.NewLockWork(name, n.client, counterAt, lockNames...)
	n.work.Pause = 20 * time.Millisecond
	n.entering = bed.rec.Effects(name, n.effects, bed.ledger)
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

// work makes every node work until ctx ends, and waits for all.
func (bed *lockTestBed) work(ctx context.Context, rnd *rand.Rand) {
	var wg sync.WaitGroup
	for _, n := range bed.nodes {
		for range workersEach {
			own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
			wg.Go(func() { n.recorded.Work(ctx, n.work, own) })
		}
		own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		wg.Go(func() { n.entering.Work(ctx, bed.effects, own) })
	}
	wg.Wait()
}

// obtain reports whether every node gets every lock after the faults, while the others continue to work.
func (bed *lockTestBed) obtain(ctx context.Context) error {
	return bed.each(ctx, func(ctx context.Context, n *lockNode) error { return n.recorded.AcquireEach(ctx, lockNames...) })
}

// resolve reports whether every effect takes place, as seen by every node.
func (bed *lockTestBed) resolve(ctx context.Context) error {
	return bed.each(ctx, func(ctx context.Context, n *lockNode) error { return n.entering.ResolveAll(ctx, bed.effects) })
}

func (bed *lockTestBed) each(ctx context.Context, do func(context.Context, *lockNode) error) error {
	ctx, cancel := context.WithTimeout(ctx, obtainable)
	defer cancel()
	errs := make([]error, len(bed.nodes))
	var wg sync.WaitGroup
	for i, n := range bed.nodes {
		wg.Go(func() {
			if err := do(ctx, n); err != nil {
				errs[i] = fmt.Errorf("after the faults, %s: %w", n.name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// toEtcd returns the node's way to etcd.
func (n *lockNode) toEtcd() faults.Target {
	return faults.Target{Relays: []*fault.Relay{n.relay}, Client: n.faults}
}

// judge returns the verdict about the recorded history. Call it when no node works any more.
func (bed *lockTestBed) judge(limits history.Limits) (history.Verdict, error) {
	bed.unfollow()
	bed.followers.Wait()
	close(bed.followedErr)
	var errs []error
	for err := range bed.followedErr {
		errs = append(errs, err)
	}
	errs = append(errs, bed.rec.Stop())
	recorded, err := history.Read(&bed.text)
	errs = append(errs, err)
	ledger, err := history.ReadFiles(filepath.Join(bed.dir, "ledger.jsonl"))
	if err := errors.Join(append(errs, err)...); err != nil {
		return history.Verdict{}, err
	}
	return history.Check(history.Merge(recorded, ledger), limits), nil
}

// close ends everything.
func (bed *lockTestBed) close() error {
	bed.unfollow()
	bed.followers.Wait()
	errs := []error{bed.rec.Stop()}
	bed.cancel()
	bed.wg.Wait()
	for _, n := range bed.nodes {
		if n.client != nil {
			_ = n.client.Close() // its error is that its context was cancelled
		}
		if n.relay != nil {
			n.relay.Close()
		}
	}
	if bed.client != nil {
		_ = bed.client.Close()
	}
	if bed.ledger != nil {
		errs = append(errs, bed.ledger.Close())
	}
	if bed.etcd != nil {
		errs = append(errs, bed.etcd.Close())
	}
	return errors.Join(errs...)
}
