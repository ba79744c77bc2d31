package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/test/schedule"
	"github.com/goverse/goverse/internal/wait"
)

// registerKey is the key that leaders write, outside the cluster's range.
const registerKey = "/register"

// nodeUser simulates the user of a process's node: functions in Lead, guarded writes, calls in shards.
type nodeUser struct {
	p *process

	mu     sync.Mutex
	rand   *rand.Rand
	inside map[int64]int       // functions in Lead, by token
	asks   map[int]acquireCall // shards that are being acquired
}

func newNodeUser(p *process) nodeUser {
	return nodeUser{p: p, rand: schedule.NewRand(p.w.Seed, "use", p.id), inside: map[int64]int{},
		asks: map[int]acquireCall{}}
}

// drawBetween draws a duration from a to b.
func (u *nodeUser) drawBetween(a, b time.Duration) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return schedule.Between(u.rand, a, b)
}

func (u *nodeUser) drawChance(n int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rand.IntN(n) == 0
}

// runUser acts until the process ends.
func (u *nodeUser) runUser() {
	if u.p.host.roles.shards > 0 {
		u.p.wg.Go(u.runCalls)
	}
	var err error
	for err == nil {
		err = u.p.election.Lead(u.p.ctx, u.leadTerm)
	}
	if !errors.Is(err, leaderelection.ErrStopped) && u.p.ctx.Err() == nil {
		u.p.w.Fail("%s: Lead: %v", u.p.id, err)
	}
}

// leadTerm is the function of a term. Some of its runs return late.
func (u *nodeUser) leadTerm(ctx context.Context, t leaderelection.Term) error {
	u.countInside(t.Token(), 1)
	defer u.countInside(t.Token(), -1)
	u.p.w.faults.reachMoment(u.p, momentTermBegan)
	u.writeUnderFence(ctx, t)
	if u.drawChance(2) {
		return nil
	}
	d := u.drawBetween(0, 20*time.Millisecond)
	if u.drawChance(4) {
		d = u.drawBetween(0, 2*workTimeout)
	}
	wait.For(u.p.ctx, d)
	return nil
}

func (u *nodeUser) countInside(token int64, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.inside[token] += n
}

// functionRuns reports whether a function of a term runs.
func (u *nodeUser) functionRuns(token int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.inside[token] > 0
}

// works reports whether a function of any term runs.
func (u *nodeUser) works() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, running := range u.inside {
		if running > 0 {
			return true
		}
	}
	return false
}

// writeUnderFence writes under the term's fence until the term is over.
func (u *nodeUser) writeUnderFence(ctx context.Context, t leaderelection.Term) {
	for {
		wait.For(ctx, u.drawBetween(0, u.p.w.ttl))
		if ctx.Err() != nil {
			return
		}
		attempt, cancel := context.WithTimeout(ctx, requestTimeout)
		_, _ = t.Txn(attempt).Then(clientv3.OpPut(registerKey, u.p.id)).Commit() // the checks see the outcome
		cancel()
	}
}

// drawActivity draws the duration of a user's activity in a shard.
func (u *nodeUser) drawActivity() time.Duration {
	if u.drawChance(8) {
		return u.drawBetween(0, u.p.w.ttl)
	}
	return u.drawBetween(0, 20*time.Millisecond)
}

// acquireCall is one call of OnAcquire. The shard is lost when ctx has ended.
type acquireCall struct {
	ctx   context.Context
	epoch int64
}

// acquire implements OnAcquire.
func (u *nodeUser) acquire(ctx context.Context, shard int, epoch int64) {
	u.mu.Lock()
	u.asks[shard] = acquireCall{ctx, epoch}
	u.mu.Unlock()
	u.p.w.wakeChecks()
	wait.For(u.p.ctx, u.drawActivity())
	u.mu.Lock()
	delete(u.asks, shard)
	u.mu.Unlock()
	u.p.w.wakeChecks()
}

// acquiringEpoch returns the epoch under which a shard is being acquired, or 0 if it is not.
func (u *nodeUser) acquiringEpoch(shard int) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if a, asked := u.asks[shard]; asked && a.ctx.Err() == nil {
		return a.epoch
	}
	return 0
}

// release implements OnRelease.
func (u *nodeUser) release(context.Context, int) {
	if u.drawChance(2) {
		wait.For(u.p.ctx, u.drawActivity())
	}
	u.p.w.wakeChecks()
}

// runCalls runs calls in shards.
func (u *nodeUser) runCalls() {
	shards := u.p.shards
	for u.p.ctx.Err() == nil {
		wait.For(u.p.ctx, u.drawBetween(0, u.p.w.ttl/4))
		u.mu.Lock()
		n := u.rand.IntN(shards.Count())
		u.mu.Unlock()
		if _, ok := shards.Enter(n); !ok {
			continue
		}
		ctx := shards.Drained(n)
		wait.For(ctx, u.drawActivity())
		shards.Exit(n)
	}
}
