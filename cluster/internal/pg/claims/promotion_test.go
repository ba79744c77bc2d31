//go:build unix

package claims

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

var promotions = flag.Int("promotions", 1, "how often each case of TestPromotion runs; 20 in the full run")

// replicated is a primary and its standby. The holder reaches the primary through a relay.
type replicated struct {
	primary, standby *pgserver.Server
	relay            *fault.Relay
}

func startReplicated(t *testing.T, synchronous bool) *replicated {
	t.Helper()
	r := &replicated{primary: pgserver.StartForTest(t)}
	var err error
	r.standby, err = r.primary.StartStandby("-c", "fsync=off")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.standby.Close()) })
	if synchronous {
		conn := connect(t, r.primary.URL())
		for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
			_, err := conn.Exec(patient(t), sql)
			require.NoError(t, err)
		}
		require.NoError(t, conn.Close(patient(t)))
		require.Eventually(t, func() bool {
			return query[int](t, r.primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1
		}, patience, time.Millisecond)
	}
	r.relay, err = fault.NewRelay(r.primary.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.relay.Close() })
	return r
}

// urls returns the URL of a process that reaches the primary at an address, and the standby.
func (r *replicated) urls(primary string) string {
	return "postgres://postgres@" + primary + "," + r.standby.Address() + "/postgres?sslmode=disable&connect_timeout=1"
}

// stopReplication makes the standby lack all later commits.
func (r *replicated) stopReplication(t *testing.T) {
	conn := connect(t, r.standby.URL())
	for _, sql := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
		_, err := conn.Exec(patient(t), sql)
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close(patient(t)))
	require.Eventually(t, func() bool {
		return query[int](t, r.primary, "SELECT count(*) FROM pg_stat_replication") == 0
	}, patience, time.Millisecond)
}

// load is the work of tasks that claim names again and again.
type load struct {
	stop  context.CancelFunc
	tasks sync.WaitGroup
	mu    sync.Mutex
	terms []term
}

// startLoad starts four tasks of a process, each with a name that it shares with the tasks of other processes.
func startLoad(t *testing.T, p *process) *load {
	l := &load{}
	var ctx context.Context
	ctx, l.stop = context.WithCancel(t.Context())
	for name := range int64(4) {
		l.tasks.Go(func() {
			for ctx.Err() == nil {
				c, err := p.Acquire(ctx, Spec{Name: fmt.Sprint("load ", name)})
				if err != nil {
					continue
				}
				seen := observe(name, c)
				_, _ = c.Release(ctx)
				l.mu.Lock()
				l.terms = append(l.terms, seen)
				l.mu.Unlock()
			}
		})
	}
	t.Cleanup(func() { l.end() })
	return l
}

// await waits until there are n terms.
func (l *load) await(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.terms) >= n
	}, patience, time.Millisecond)
}

// end ends the load and returns the terms that were valid for a while.
func (l *load) end() []term {
	l.stop()
	l.tasks.Wait()
	return slices.DeleteFunc(l.terms, func(t term) bool { return t.last == 0 })
}

// observe returns the term of a claim that it holds for a millisecond.
func observe(name int64, c *Claim) term {
	t := term{name: name, token: c.Token()}
	for end := monotonic() + int64(time.Millisecond); ; {
		before := monotonic()
		switch valid := c.Valid(); {
		case !valid:
			return t
		case t.first == 0:
			t.first = monotonic()
		default:
			t.last = before
		}
		if before > end {
			return t
		}
	}
}

// A standby is promoted under load, while a process holds a name and another one waits for it. Nothing is granted for
// the deadline, and tokens grow, also if the standby lacks the grant. No two processes hold one name, unless the old
// primary still serves without it.
func TestPromotion(t *testing.T) {
	pace.Parallel(t)
	for _, test := range []struct {
		name              string
		synchronous, lags bool
		cutOff            bool // the holder does not hear that the primary is gone
		oldServes         bool // the old primary still serves the holder
		both              bool // both hold the name, as the package comment says
	}{
		{name: "synchronous", synchronous: true},
		{name: "synchronous, holder cut off", synchronous: true, cutOff: true},
		{name: "synchronous, old primary serves", synchronous: true, oldServes: true},
		{name: "asynchronous", lags: true},
		{name: "asynchronous, holder cut off", lags: true, cutOff: true},
		{name: "asynchronous, old primary serves", lags: true, oldServes: true, both: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			pace.Parallel(t)
			for range *promotions {
				r := startReplicated(t, test.synchronous)
				deadline := short
				if test.both {
					deadline = pace.TTL(3 * time.Second) // the holder must not lose its session meanwhile
				}
				holder := open(t, r.urls(r.relay.Address()), deadline)
				releaseShort(t, holder.acquire(t, Spec{Name: "it"}))
				if test.lags {
					r.stopReplication(t)
				}
				held := holder.acquire(t, Spec{Name: "it"})
				before := startLoad(t, holder)
				before.await(t, 20)
				if test.cutOff {
					r.relay.Blackhole(fault.Both)
				}
				if !test.oldServes {
					r.primary.Kill()
				}
				began := time.Now()
				require.NoError(t, r.standby.PromoteNow())
				next := open(t, r.standby.URL(), deadline)
				c := next.acquire(t, Spec{Name: "it"})
				require.GreaterOrEqual(t, time.Since(began), deadline)
				require.Equal(t, test.both, held.Valid())
				require.Greater(t, c.Token(), held.Token())
				took := time.Since(began)
				releaseShort(t, c)
				after := startLoad(t, next)
				if !test.oldServes { // it finds the new primary by itself
					releaseShort(t, holder.acquire(t, Spec{Name: "it"}))
				}
				after.await(t, 20)
				seen := append(before.end(), after.end()...)
				if !test.both {
					require.Empty(t, findOverlap(seen))
				}
				require.NoError(t, next.Close(patient(t)))
				t.Logf("granted %v after the promotion; %d terms", took.Round(time.Millisecond), len(seen))
			}
		})
	}
}

// A heartbeat whose wait for the synchronous standby was cancelled does not count, although the server confirms it.
func TestWaitForTheStandbyIsCancelled(t *testing.T) {
	pace.Parallel(t)
	db := pgserver.StartForTest(t)
	holder := open(t, db.URL(), short)
	held := holder.acquire(t, Spec{Name: "it"})
	execute(t, db, "ALTER SYSTEM SET synchronous_standby_names = 'gone'")
	execute(t, db, "SELECT pg_reload_conf()")
	conn := connect(t, db.URL())
	for end := time.Now().Add(patience); held.Valid(); {
		require.True(t, time.Now().Before(end), "its heartbeats count")
		_, err := conn.Exec(patient(t), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		require.NoError(t, err)
	}
	require.ErrorIs(t, held.EndCause(), session.ErrLost)
	require.NoError(t, conn.Close(patient(t)))
	execute(t, db, "ALTER SYSTEM RESET synchronous_standby_names")
	execute(t, db, "SELECT pg_reload_conf()")
	releaseShort(t, holder.acquire(t, Spec{Name: "it"}))
}
