package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/wait"
)

// registerKey is the key that leaders write, outside the cluster's range.
const registerKey = "/register"

// use simulates the user of a process's node: functions in Lead, guarded writes, calls in shards.
type use struct {
	p *process

	mu     sync.Mutex
	rand   *rand.Rand
	inside map[int64]int // functions in Lead, by token
	asks   map[int]ask   // shards that are being acquired
}

func newUse(p *process) use {
	return use{p: p, rand: newRand(p.w.seed, streamOf("use", p.id)), inside: map[int64]int{}, asks: map[int]ask{}}
}

// between draws a duration from a to b.
func (u *use) between(a, b time.Duration) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return between(u.rand, a, b)
}

func (u *use) chance(n int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rand.IntN(n) == 0
}

// run acts until the process ends.
func (u *use) run() {
	if u.p.host.roles.shards > 0 {
		u.p.wg.Go(u.call)
	}
	for u.p.ctx.Err() == nil {
		_ = u.p.core.Manager.Election().Lead(u.p.ctx, u.lead) // it fails only when its context has ended
	}
}

// lead is the function of a term. Some of its runs return late.
func (u *use) lead(ctx context.Context, t election.Term) error {
	u.enter(t.Token(), 1)
	defer u.enter(t.Token(), -1)
	u.p.w.faults.moment(u.p, termBegan)
	u.write(ctx, t)
	if u.chance(2) {
		return nil
	}
	d := u.between(0, 20*time.Millisecond)
	if u.chance(4) {
		d = u.between(0, 2*workTimeout)
	}
	wait.For(u.p.ctx, d)
	return nil
}

func (u *use) enter(token int64, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.inside[token] += n
}

// works reports whether a function of a term runs.
func (u *use) works(token int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.inside[token] > 0
}

// write writes under the term's fence until the term is over.
func (u *use) write(ctx context.Context, t election.Term) {
	for {
		wait.For(ctx, u.between(0, u.p.w.ttl))
		if ctx.Err() != nil {
			return
		}
		attempt, cancel := context.WithTimeout(ctx, requestTimeout)
		_, _ = t.Txn(attempt).Then(clientv3.OpPut(registerKey, u.p.id)).Commit() // the checks see the outcome
		cancel()
	}
}

// takes draws the duration of a user's activity in a shard.
func (u *use) takes() time.Duration {
	if u.chance(8) {
		return u.between(0, u.p.w.ttl)
	}
	return u.between(0, 20*time.Millisecond)
}

// ask is one call of OnAcquire. The shard is lost when ctx has ended.
type ask struct {
	ctx   context.Context
	epoch int64
}

// acquire implements OnAcquire.
func (u *use) acquire(ctx context.Context, shard int, epoch int64) {
	u.mu.Lock()
	u.asks[shard] = ask{ctx, epoch}
	u.mu.Unlock()
	u.p.w.look()
	wait.For(u.p.ctx, u.takes())
	u.mu.Lock()
	delete(u.asks, shard)
	u.mu.Unlock()
	u.p.w.look()
}

// acquiring returns the epoch under which a shard is being acquired, or 0 if it is not.
func (u *use) acquiring(shard int) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if a, asked := u.asks[shard]; asked && a.ctx.Err() == nil {
		return a.epoch
	}
	return 0
}

// release implements OnRelease.
func (u *use) release(context.Context, int) {
	if u.chance(2) {
		wait.For(u.p.ctx, u.takes())
	}
	u.p.w.look()
}

// call runs calls in shards.
func (u *use) call() {
	shards := u.p.core.Manager.Shards()
	for u.p.ctx.Err() == nil {
		wait.For(u.p.ctx, u.between(0, u.p.w.ttl/4))
		u.mu.Lock()
		n := u.rand.IntN(shards.Count())
		u.mu.Unlock()
		if _, ok := shards.Enter(n); !ok {
			continue
		}
		ctx := shards.Drained(n)
		wait.For(ctx, u.takes())
		shards.Exit(n)
	}
}
