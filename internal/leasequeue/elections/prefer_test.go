package elections_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/test/testbed"
)

func TestPreferredLeads(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	first := s.leads(a)
	b := s.join(s.b, "job")
	began := time.Now()
	c := s.prefer(s.c, "job", 2)
	term := s.leads(c)
	require.GreaterOrEqual(t, time.Since(began), s.preferAfter, "not at once")
	require.ErrorIs(t, context.Cause(first.Context()), elections.ErrGaveWay)
	s.eventually(func() bool {
		q := fmt.Sprint(c.Queue()) // the order of the moves may differ
		return q == "[c:1 b:1 a:1]" || q == "[c:1 a:1 b:1]"
	}, "those who let it pass queue again")
	requireLeader(t, "c:1", term.Token(), c.Leader())

	// It comes back with the name alone. Another priority is another entry.
	_, err := s.c.Stand("job")
	require.NoError(t, err)
	_, err = s.c.Stand("job", leaderelection.Priority(2))
	require.NoError(t, err)
	require.True(t, term.Valid())
	_, err = s.b.Stand("job", leaderelection.Priority(2))
	require.NoError(t, err)
	s.eventually(func() bool { return fmt.Sprint(a.Queue()) == "[c:1 b:1 a:1]" && !a.IsLeader() },
		"before the one that is not preferred")
	require.True(t, term.Valid(), "equals take nothing from each other")

	_, err = s.c.Stand("job", leaderelection.Priority(1))
	require.NoError(t, err)
	s.leads(b)
	require.ErrorIs(t, context.Cause(term.Context()), elections.ErrGaveWay)
	s.eventually(func() bool { return fmt.Sprint(a.Queue()) == "[b:1 c:1 a:1]" }, "the next one is preferred too")
}

// A candidate that learns its entry late, after the watch has reported all the others, still lets the preferred
// one pass.
func TestPreferredPassesOneThatLearnsItsPlaceLate(t *testing.T) {
	s := newTestBed(t)
	s.leads(s.join(s.a, "job"))
	s.b.Faults.LoseAnswer(etcdfault.OpTxn, etcdfault.Putting(s.keys.QueuePrefix("job")))
	b, err := s.b.Stand("job")
	require.NoError(t, err)
	s.queued("job", b, 2)
	s.leads(s.prefer(s.c, "job", 1))
}

// A preferred candidate waits for the leader's work like any other.
func TestPreferredWaitsForTheWork(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	s.leads(a)
	inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- a.Lead(s.ctx, func(ctx context.Context, _ leaderelection.Term) error {
			close(inside)
			<-ctx.Done()
			<-goOn
			return ctx.Err()
		})
	}()
	<-inside
	b := s.prefer(s.b, "job", 1)
	s.eventually(func() bool { return !a.IsLeader() }, "the flag first")
	require.False(t, b.IsLeader())
	close(goOn)
	require.ErrorIs(t, <-ended, elections.ErrGaveWay)
	s.leads(b)
}

// Five nodes are rolled one after the other from priority 1 to 2. Whichever leads, and in whatever order, the
// preference causes at most one handover.
func TestRollOut(t *testing.T) {
	for name, order := range map[string][]int{"the leader first": {0, 1, 2, 3, 4}, "the leader last": {4, 3, 2, 1, 0},
		"mixed": {2, 0, 4, 1, 3}} {
		t.Run(name, func(t *testing.T) {
			s := newTestBed(t)
			handed := s.client.Watch(s.ctx, s.keys.QueuePrefix("job"), clientv3.WithPrefix())
			var nodes [5]*process
			var all [5]*elections.Election
			start := func(i, priority int) {
				nodes[i] = s.start(fmt.Sprintf("n%d:1", i))
				all[i] = s.prefer(nodes[i], "job", priority)
			}
			for i := range nodes {
				start(i, 1)
			}
			s.leads(all[0])
			forced := 0
			for _, i := range order {
				if s.first("job") == fmt.Sprintf("n%d:1", i) {
					forced++
				}
				require.NoError(t, nodes[i].Close(s.ctx))
				nodes[i].Stop()
				start(i, 2)
				s.eventually(func() bool { return strings.HasSuffix(s.queue("job")[0], "-priority2") }, "a new one leads")
			}
			last, err := s.client.Get(s.ctx, s.keys.QueuePrefix("job"), clientv3.WithPrefix())
			require.NoError(t, err)
			require.Equal(t, 1, handOvers(handed, last.Header.Revision, func() {
				_, err := s.client.Put(s.ctx, s.keys.QueuePrefix("job")+"end", "")
				require.NoError(t, err)
			})-forced)
		})
	}
}

// first returns the leader's address as stored in etcd.
func (s *testBed) first(name string) string {
	s.Helper()
	resp, err := s.client.Get(s.ctx, s.keys.QueuePrefix(name), clientv3.WithFirstCreate()...)
	require.NoError(s, err)
	require.Len(s, resp.Kvs, 1)
	return string(resp.Kvs[0].Value)
}

// handOvers counts how often the first entry changed, up to a revision.
func handOvers(changes clientv3.WatchChan, until int64, end func()) int {
	end()
	created, leader, n := map[string]int64{}, "", -1 // the first leader took over from none
	for resp := range changes {
		for i, ev := range resp.Events {
			if ev.Kv.ModRevision > until {
				return n
			}
			if ev.Type == clientv3.EventTypeDelete {
				delete(created, string(ev.Kv.Key))
			} else {
				created[string(ev.Kv.Key)] = ev.Kv.CreateRevision
			}
			if i+1 < len(resp.Events) && resp.Events[i+1].Kv.ModRevision == ev.Kv.ModRevision {
				continue
			}
			first := ""
			for key, create := range created {
				if first == "" || create < created[first] {
					first = key
				}
			}
			if now := fmt.Sprint(first, created[first]); first != "" && now != leader {
				leader, n = now, n+1
			}
		}
	}
	return n
}

// A preferred candidate that restarts again and again does not take the leadership.
func TestPreferredThatComesAndGoes(t *testing.T) {
	s := newTestBedWith(t, testbed.LongTTL, time.Hour)
	a := s.join(s.a, "job")
	term := s.leads(a)
	for range 5 {
		p := s.start("d:1")
		_, err := p.Stand("job", leaderelection.Priority(1))
		require.NoError(t, err)
		s.eventually(func() bool { return len(s.queue("job")) == 2 }, "it stands")
		p.Stop()
		s.eventually(func() bool { return len(s.queue("job")) == 1 }, "it is gone")
	}
	require.True(t, term.Valid())
}

// A program that is not a node stands between: no candidate is lost, and none moves in circles.
func TestOutsiderIsNotPassed(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	term := s.leads(a)
	lease, err := s.client.Grant(s.ctx, 20)
	require.NoError(t, err)
	outsider := fmt.Sprintf("%s%x", s.keys.QueuePrefix("job"), int64(lease.ID))
	_, err = s.client.Put(s.ctx, outsider, "elsewhere", clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	b := s.join(s.b, "job")
	c := s.prefer(s.c, "job", 1)
	s.eventually(func() bool { return fmt.Sprint(b.Queue()) == "[a:1 elsewhere c:1 b:1]" }, "b lets c pass")
	require.ErrorIs(t, b.Transfer(s.ctx, "c:1"), leaderelection.ErrOutsider)
	require.True(t, term.Valid())
	_, err = s.client.Delete(s.ctx, outsider)
	require.NoError(t, err)
	s.leads(c)
}
