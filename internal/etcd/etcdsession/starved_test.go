package etcdsession

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// starved is a process that stands still again and again, in virtual time. During a pause it reads neither the
// clock nor etcd's answers.
type starved struct {
	*testing.T
	rand   *rand.Rand
	e      *modeletcd.Etcd
	conn   *modeletcd.Conn
	k      *Keeper
	began  time.Time
	stands atomic.Int64 // start of the pause, relative to began; -1: it runs

	mu     sync.Mutex
	ended  map[clientv3.LeaseID]time.Time // leases that etcd ended
	losses []session.Reason
}

func newStarved(t *testing.T, seed uint64) *starved {
	p := &starved{T: t, rand: rand.New(rand.NewPCG(seed, 29)), began: time.Now(), ended: map[clientv3.LeaseID]time.Time{}}
	p.stands.Store(-1)
	p.e = modeletcd.NewCluster(3, func(least, _ time.Duration) time.Duration { return least })
	p.e.Changed = func(now, before *mvccpb.KeyValue, _ *modeletcd.Conn) {
		if now == nil && before != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.ended[clientv3.LeaseID(before.Lease)] = time.Now()
		}
	}
	slow := time.Duration(1+p.rand.IntN(100)) * time.Millisecond // limit for the delay of each message
	var draws sync.Mutex
	ways := rand.New(rand.NewPCG(seed, 30))
	p.conn = p.e.ConnectTo(func() int { return 0 }, "starved", func(any) modeletcd.Delivery {
		draws.Lock()
		defer draws.Unlock()
		return modeletcd.Delivery{Out: time.Duration(ways.Int64N(int64(slow))), Back: time.Duration(ways.Int64N(int64(slow)))}
	})
	k, err := NewKeeper(Config{Process: etcd.Process{Client: p.conn.Client(), Clock: p.clock}, TTL: scheduleTTL}, Hooks{
		Register: p.register, OnLost: func(_ *Session, lost *session.LostError) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.losses = append(p.losses, lost.Reason)
		}})
	require.NoError(t, err)
	p.k = k
	return p
}

func (p *starved) register(ctx context.Context, s *Session) error {
	key := fmt.Sprint("/node/", s.ID())
	resp, err := p.conn.Client().Put(ctx, key, "", clientv3.WithLease(s.ID()))
	if err == nil {
		s.ProtectKey(key, resp.Header.Revision, nil)
	}
	return err
}

func (p *starved) clock() deadline.Instant {
	now := time.Since(p.began)
	if stands := p.stands.Load(); stands >= 0 {
		now = time.Duration(stands)
	}
	return deadline.Instant{Mono: int64(now) + 1, Wall: p.began.UnixNano() + int64(now)}
}

// seen records, at a moment when the process runs, what it claims and what it may begin.
type seen struct{ leads, begins bool }

func (p *starved) see() seen {
	s := p.k.Current()
	return seen{s != nil && s.Valid(), s != nil && s.Valid() && !s.Suspected()}
}

// pause makes the process stand still, and then checks that it claims nothing that others may have taken.
func (p *starved) pause(d time.Duration) {
	p.conn.SetHeld(true)
	p.stands.Store(int64(time.Since(p.began)))
	pass(d)
	p.stands.Store(-1)
	if s := p.k.Current(); s != nil && s.Valid() {
		p.mu.Lock()
		at, ended := p.ended[s.ID()]
		p.mu.Unlock()
		require.False(p, ended && time.Since(at) > 200*time.Millisecond, "it claims a lease that ended %v ago",
			time.Since(at))
	}
	p.conn.SetHeld(false)
}

// run makes it run and stand still in turn, and returns its state before each pause.
func (p *starved) run(lasts, run, pause time.Duration) (all []seen) {
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		pass(run/2 + time.Duration(p.rand.Int64N(int64(run))))
		all = append(all, p.see())
		p.pause(pause/2 + time.Duration(p.rand.Int64N(int64(pause))))
	}
	return all
}

func share(all []seen, of func(seen) bool) (share float64) {
	for _, s := range all {
		if of(s) {
			share += 1 / float64(len(all))
		}
	}
	return share
}

// A process that stands still again and again, at any rate, with a lease from before etcd's leader changed,
// claims nothing that others may have. After one TTL there is a leader almost all the time: it does not keep
// its lease in vain. And it may begin new work again and again.
func TestPausesAtAnyRate(t *testing.T) { // not in parallel with others, which it would delay
	gaveUp := 0
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			p := newStarved(t, seed)
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			wg.Go(func() { _ = p.k.Run(ctx) })
			defer func() { cancel(); wg.Wait(); p.e.Close() }()
			pass(time.Second)
			require.True(t, p.see().leads)
			p.e.Transfer((p.e.Leader() + 1) % 3)
			pause := 50*time.Millisecond + time.Duration(p.rand.Int64N(int64(350*time.Millisecond)))
			run := 5*time.Millisecond + time.Duration(p.rand.Int64N(int64(200*time.Millisecond)))
			about := fmt.Sprintf("seed %d: %v of %v", seed, pause, pause+run)
			p.run(scheduleTTL, run, pause)
			var all []seen
			for n := range 12 {
				ttl := p.run(scheduleTTL, run, pause)
				require.Positive(t, share(ttl, func(s seen) bool { return s.begins }),
					"%s: it may begin something, in the TTL after %d", about, n+1)
				all = append(all, ttl...)
			}
			require.GreaterOrEqual(t, share(all, func(s seen) bool { return s.leads }), 0.95, "%s: it leads", about)
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, why := range p.losses {
				require.Equal(t, session.ReasonStarved, why, about)
			}
			require.LessOrEqual(t, len(p.losses), 1, "%s: the next lease is of the present term", about)
			gaveUp += len(p.losses)
		})
	}
	t.Logf("in %d of 100 the lease was given up", gaveUp)
	require.Positive(t, gaveUp)
}

// Time lost to pauses while the lease was of etcd's present term does not count after etcd has changed its
// leader: a process that runs by then keeps its session.
func TestFormerPausesCountForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newStarved(t, 1)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { _ = p.k.Run(ctx) })
		defer func() { cancel(); wg.Wait(); p.e.Close() }()
		pass(time.Second)
		p.run(3*scheduleTTL, 100*time.Millisecond, 300*time.Millisecond)
		first := p.k.Current()
		require.True(t, first.Valid(), "it leads meanwhile")
		pass(scheduleTTL)
		p.e.Transfer((p.e.Leader() + 1) % 3)
		pass(scheduleTTL)
		require.Empty(t, p.losses)
		require.Same(t, first, p.k.Current())
		require.True(t, p.see().begins)
		require.True(t, first.leaseAtRisk(), "the lease is of the former term")
	})
}
