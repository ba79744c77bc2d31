//go:build unix

package pgnode_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pace"
)

// deadline of the sessions in tests that do not wait for it.
const deadline = 10 * time.Second

// process is a node with its session and its log.
type process struct {
	*pgnode.Node
	session *pgsession.Session
	log     *logtest.Buffer
}

// openSession opens a session that is closed with the test.
func openSession(t testing.TB, url, schema, owner string, d time.Duration) *pgsession.Session {
	t.Helper()
	s, err := pgsession.Open(patient(t), pgsession.Config{URL: url, Schema: schema, Owner: owner, Deadline: d})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = s.Close(ctx) // the server may be gone
	})
	return s
}

// join starts a node that leaves with the test.
func join(t testing.TB, url, schema, owner string, d time.Duration, cfg pgnode.Config) *process {
	t.Helper()
	p := &process{session: openSession(t, url, schema, owner, d), log: &logtest.Buffer{}}
	cfg.Logger = p.log.Logger()
	n, err := pgnode.Join(patient(t), p.session, cfg)
	require.NoError(t, err)
	p.Node = n
	return p
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	require.Eventually(t, done, patience, 5*time.Millisecond, what)
}

// awaitLeader waits until all nodes name the leader and count the nodes.
func awaitLeader(t testing.TB, leader string, nodes int, all ...*process) {
	t.Helper()
	for _, p := range all {
		eventually(t, fmt.Sprintf("%s sees %s lead %d nodes", p.ID(), leader, nodes), func() bool {
			st := p.Status()
			return st.LeaderID == leader && len(st.Nodes) == nodes && st.Ready
		})
	}
}

// typesOf lists "type node" of the events in the log, in the order of Seq.
func typesOf(t testing.TB, p *process) (types []string) {
	t.Helper()
	found, _, err := p.Events().List(patient(t), event.Query{})
	require.NoError(t, err)
	slices.SortFunc(found, func(a, b event.Event) int { return int(a.Seq - b.Seq) })
	for _, e := range found {
		types = append(types, string(e.Type)+" "+e.Node)
	}
	return types
}

// awaitEvents waits until the log has these events, in this order. A leader and its successor record the end of one
// term and the beginning of the next in any order.
func awaitEvents(t testing.TB, p *process, want ...string) {
	t.Helper()
	var have []string
	defer func() {
		if t.Failed() {
			t.Logf("the log has %q", have)
		}
	}()
	eventually(t, fmt.Sprintf("the log has %q", want), func() bool {
		have = typesOf(t, p)
		rest := have
		for _, w := range want {
			i := slices.Index(rest, w)
			if i < 0 {
				return false
			}
			rest = rest[i+1:]
		}
		return true
	})
}

func TestJoinAndLeave(t *testing.T) {
	schema, meter := newSchema(t), pace.StartMeter(t)
	a := join(t, shared.URL(), schema, "a", deadline, pgnode.Config{HTTPAddress: "localhost:1", Version: "1.2",
		Labels: map[string]string{"zone": "x"}})
	awaitLeader(t, "a", 1, a)
	b := join(t, shared.URL(), schema, "b", deadline, pgnode.Config{HTTPAddress: "http://b"})
	o := join(t, shared.URL(), schema, "o", deadline, pgnode.Config{Observer: true})
	awaitLeader(t, "a", 3, a, b, o)
	eventually(t, "b queues", func() bool { return len(o.Status().Queue) == 2 && len(b.Status().Queue) == 2 })
	require.Equal(t, cluster.StateFollower, o.Status().State)
	require.Equal(t, []string{"a", "b"}, o.Status().Queue)
	require.Equal(t, []string{"a", "b", "o"}, b.Status().Nodes)
	require.True(t, a.IsLeader() && a.Status().IsLeader)
	require.Equal(t, cluster.StateLeader, a.Status().State)
	require.Equal(t, cluster.StateCandidate, b.Status().State)
	require.Equal(t, "localhost:1", b.URLOf("a"))
	require.Nil(t, o.Election())

	eventually(t, "b's table", func() bool {
		table, err := b.MemberTable()
		require.NoError(t, err)
		return len(table.Members) == 3 && table.Members[0].State == cluster.MemberLeader &&
			table.Members[1].State == cluster.MemberCandidate && table.Members[2].State == cluster.MemberObserver
	})
	table, err := b.MemberTable()
	require.NoError(t, err)
	first := table.Members[0]
	require.Equal(t, map[string]string{"zone": "x"}, first.Labels)
	require.Equal(t, "1.2", first.Version)
	require.Equal(t, "localhost:1", first.HTTPAddress)
	require.NotEmpty(t, first.Hostname)
	require.Positive(t, first.Incarnation)
	require.WithinDuration(t, time.Now(), first.SeenSince, time.Minute)
	require.Equal(t, 1, first.Place)

	var own, seen cluster.LeaderInfo
	eventually(t, "b sees the lease", func() bool {
		own, err = a.LeaderInfo(t.Context())
		require.NoError(t, err)
		seen, err = b.LeaderInfo(t.Context())
		require.NoError(t, err)
		return !seen.AcquiredAt.IsZero()
	})
	require.Equal(t, own.Token, seen.Token)
	require.WithinDuration(t, own.AcquiredAt, seen.AcquiredAt, meter.Scale(200*time.Millisecond))
	require.True(t, seen.Estimated && !own.Estimated)
	require.Equal(t, "localhost:1", seen.HTTPAddress)

	db := newPool(t, shared.URL())
	var state pgnode.State
	eventually(t, "each row names the term", func() bool {
		state, err = pgnode.Read(patient(t), db, schema)
		require.NoError(t, err)
		return !slices.ContainsFunc(state.Nodes, func(n pgnode.Row) bool { return n.Term != own.Token })
	})
	require.Len(t, state.Nodes, 3)
	require.Len(t, state.Elections, 1)
	leader, ok := state.Elections[0].Leader()
	require.True(t, ok)
	require.Equal(t, own.Token, leader.Token)
	require.Equal(t, own.Token, state.Elections[0].Lease.Term)
	require.Equal(t, "a", state.Elections[0].Lease.Leader)
	require.Nil(t, state.Elections[0].Lease.Ended)

	require.NoError(t, a.Leave(patient(t)))
	awaitLeader(t, "b", 2, b, o)
	require.Equal(t, cluster.StateStopped, a.Status().State)
	require.False(t, a.Status().Ready || a.IsLeader())
	_, err = a.MemberTable()
	require.ErrorIs(t, err, pgnode.ErrStopped)
	require.ErrorIs(t, a.Events().Record(t.Context(), "app_x", nil), pgnode.ErrStopped)
	require.NoError(t, a.Leave(patient(t)), "again")
	require.True(t, a.session.Valid(), "the session goes on")
	awaitEvents(t, b, "node_joined a", "leader_elected a", "node_joined b", "node_joined o", "leader_lost a",
		"node_left a")
	awaitEvents(t, b, "leader_elected a", "leader_elected b")
	found, _, err := b.Events().List(patient(t), event.Query{Types: []event.Type{event.LeaderLost, event.LeaderElected}})
	require.NoError(t, err)
	require.Len(t, found, 3)
	for _, e := range found {
		switch {
		case e.Type == event.LeaderLost:
			require.Equal(t, string(leaderelection.ReasonWithdrawn), e.Reason)
		case e.Node == "b":
			require.Less(t, e.Seconds, meter.Scale(time.Second).Seconds())
		}
	}

	again, err := pgnode.Join(patient(t), a.session, pgnode.Config{})
	require.NoError(t, err)
	require.NoError(t, again.Leave(patient(t)))
	require.NoError(t, b.session.Close(patient(t)), "closing the session leaves")
	awaitEvents(t, o, "node_joined a", "node_left a", "node_left b")
	awaitLeader(t, "", 1, o)
}

// Two living processes cannot have one id. The second waits.
func TestDuplicates(t *testing.T) {
	schema := newSchema(t)
	a := join(t, shared.URL(), schema, "same", deadline, pgnode.Config{})
	other := openSession(t, shared.URL(), schema, "same", deadline)
	var err error
	for within := 300 * time.Millisecond; !errors.Is(err, pgnode.ErrDuplicate); within *= 2 {
		require.Less(t, within, patience, "%v", err) // a busy machine may answer later
		ctx, cancel := context.WithTimeout(patient(t), within)
		_, err = pgnode.Join(ctx, other, pgnode.Config{})
		cancel()
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Len(t, a.Status().Nodes, 1)

	joined := make(chan error, 1)
	var second *pgnode.Node
	go func() {
		var err error
		second, err = pgnode.Join(patient(t), other, pgnode.Config{})
		joined <- err
	}()
	require.NoError(t, a.session.Close(patient(t)))
	require.NoError(t, <-joined)
	eventually(t, "the second leads", second.IsLeader)
	require.NoError(t, second.Leave(patient(t)))
}

// A node whose row could not be deleted does not keep the next one on its session from joining.
func TestJoinAgainAfterAFailure(t *testing.T) {
	schema := newSchema(t)
	o := join(t, shared.URL(), schema, "o", deadline, pgnode.Config{Observer: true})
	s := openSession(t, shared.URL(), schema, "a", deadline)
	db := newPool(t, shared.URL())
	first, err := pgnode.Join(patient(t), s, pgnode.Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(patient(t), 50*time.Millisecond)
	defer cancel()
	_, err = pgnode.Join(ctx, s, pgnode.Config{})
	require.ErrorIs(t, err, pgnode.ErrDuplicate, "a session has one node")
	awaitLeader(t, "a", 2, o)

	tx, err := db.Begin(patient(t))
	require.NoError(t, err)
	_, err = tx.Exec(patient(t), fmt.Sprintf(`SELECT 1 FROM "%s".node FOR UPDATE`, schema))
	require.NoError(t, err)
	require.Error(t, first.Leave(patient(t)))
	require.NoError(t, tx.Rollback(patient(t)))
	second, err := pgnode.Join(patient(t), s, pgnode.Config{})
	require.NoError(t, err)
	awaitLeader(t, "a", 2, o)
	require.NoError(t, second.Leave(patient(t)))
	awaitEvents(t, o, "node_joined a", "node_left a", "node_joined a", "node_left a")

	// It registers, and cannot read.
	_, err = db.Exec(patient(t), fmt.Sprintf(`ALTER TABLE "%s".lease RENAME TO gone`, schema))
	require.NoError(t, err)
	_, err = pgnode.Join(patient(t), s, pgnode.Config{})
	require.Error(t, err)
	_, err = db.Exec(patient(t), fmt.Sprintf(`ALTER TABLE "%s".gone RENAME TO lease`, schema))
	require.NoError(t, err)
	state, err := pgnode.Read(patient(t), db, schema)
	require.NoError(t, err)
	require.Len(t, state.Nodes, 1, "it has left")
	third, err := pgnode.Join(patient(t), s, pgnode.Config{})
	require.NoError(t, err)
	require.NoError(t, third.Leave(patient(t)))
}

// waitedFor is a context that tells when a function first waits for its end.
type waitedFor struct {
	context.Context
	once  *sync.Once
	asked chan struct{}
}

func (w waitedFor) Done() <-chan struct{} {
	w.once.Do(func() { close(w.asked) })
	return w.Context.Done()
}

// A Leave whose context ends too soon goes on, and the next one waits for it.
func TestLeaveAgainWithMoreTime(t *testing.T) {
	schema := newSchema(t)
	a := join(t, shared.URL(), schema, "a", deadline, pgnode.Config{})
	o := join(t, shared.URL(), schema, "o", deadline, pgnode.Config{Observer: true})
	awaitLeader(t, "a", 2, a, o)
	began, end, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		left <- a.Election().AsLeader(patient(t), func(context.Context, leaderelection.Term) error {
			close(began)
			<-end
			return nil
		})
	}()
	<-began
	ctx, cancel := context.WithTimeout(patient(t), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.Leave(ctx), context.DeadlineExceeded)
	again := make(chan error, 1)
	waiting := waitedFor{Context: patient(t), once: &sync.Once{}, asked: make(chan struct{})}
	go func() { again <- a.Leave(waiting) }()
	<-waiting.asked
	close(end)
	require.NoError(t, <-left)
	require.NoError(t, <-again)
	awaitLeader(t, "", 1, o)
}

func TestBadConfigurations(t *testing.T) {
	schema := newSchema(t)
	s := openSession(t, shared.URL(), schema, "a", deadline)
	long := string(make([]byte, pgnode.MaxLabels))
	for name, cfg := range map[string]pgnode.Config{"labels": {Labels: map[string]string{"a": long}},
		"zero": {Labels: map[string]string{"a": "\x00"}}, "address": {HTTPAddress: long}, "utf": {Version: "\xff"},
		"election": {Election: long}, "timeout": {WorkTimeout: -1}} {
		_, err := pgnode.Join(patient(t), s, cfg)
		require.ErrorIs(t, err, pgnode.ErrBadConfig, name)
	}
	_, err := pgnode.Join(patient(t), nil, pgnode.Config{})
	require.ErrorIs(t, err, pgnode.ErrBadConfig)
	require.NoError(t, s.Close(patient(t)))
	_, err = pgnode.Join(patient(t), s, pgnode.Config{})
	require.ErrorIs(t, err, pgnode.ErrStopped)
}
