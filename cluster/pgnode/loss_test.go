//go:build unix

package pgnode_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/test/needed"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// The environment of a test process that is a node until it is killed.
const (
	envURL    = "PGNODE_TEST_URL"
	envSchema = "PGNODE_TEST_SCHEMA"
	envOwner  = "PGNODE_TEST_OWNER"
)

// lossDeadline is the deadline of sessions whose loss is awaited.
var lossDeadline = pace.TTL(2 * time.Second)

// runNode is a test process: a node until it is killed.
func runNode() {
	ctx := context.Background()
	s, err := pgsession.Open(ctx, pgsession.Config{URL: os.Getenv(envURL), Schema: os.Getenv(envSchema),
		Owner: os.Getenv(envOwner), Deadline: lossDeadline})
	if err == nil {
		_, err = pgnode.Join(ctx, s, pgnode.Config{HTTPAddress: "localhost:9"})
	}
	fmt.Println(err)
	select {}
}

// startProcess starts a node in another process. kill sends SIGKILL.
func startProcess(t testing.TB, schema, owner string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envURL+"="+shared.URL(), envSchema+"="+schema, envOwner+"="+owner)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait() // killed
	})
	t.Cleanup(kill)
	line := make([]byte, 100)
	n, err := out.Read(line)
	require.NoError(t, err)
	require.Equal(t, "<nil>", strings.TrimSpace(string(line[:n])))
	return kill
}

// The leader's process is killed. All others agree on the next one, the lease, and one record of what happened.
func TestTheLeaderIsKilled(t *testing.T) {
	schema, meter := newSchema(t), pace.StartMeter(t)
	kill := startProcess(t, schema, "leader")
	var all []*process
	for i := range 4 {
		all = append(all, join(t, shared.URL(), schema, fmt.Sprint("n", i), lossDeadline, pgnode.Config{}))
		queue := i + 2
		eventually(t, "it queues", func() bool { return len(all[i].Status().Queue) == queue })
	}
	awaitLeader(t, "leader", 5, all...)
	old := all[0].Status().Token
	var seen sync.Map // by each node
	var following sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	defer following.Wait()
	defer stop()
	for i, p := range all {
		following.Go(func() {
			last := int64(0)
			err := p.Events().ForEach(ctx, 0, func(e event.Event) error {
				if e.Seq != last+1 {
					t.Errorf("node %d: event %d after %d", i, e.Seq, last)
				}
				last = e.Seq
				if _, twice := seen.LoadOrStore(fmt.Sprint(i, e.ID), true); twice {
					t.Errorf("node %d: %s twice", i, e.ID)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	killed := time.Now()
	kill()
	awaitLeader(t, "n0", 4, all...)
	took := time.Since(killed)
	require.Less(t, took, meter.Scale(lossDeadline+4*time.Second))
	awaitEvents(t, all[1], "node_joined leader", "node_joined n0", "node_joined n1", "node_joined n2", "node_joined n3",
		"node_lost leader")
	awaitEvents(t, all[1], "leader_elected leader", "leader_lost leader")
	awaitEvents(t, all[1], "leader_elected leader", "leader_elected n0")
	found, _, err := all[2].Events().List(patient(t), event.Query{})
	require.NoError(t, err)
	count, least := map[event.Type]int{}, lossDeadline.Seconds()*2/3
	reported := meter.Scale(time.Second + lossDeadline/5 + 100*time.Millisecond) // the age of the lease's last renewal
	for _, e := range found {
		count[e.Type]++
		switch {
		case e.Type == event.LeaderLost:
			require.Equal(t, old, e.Token)
			require.Equal(t, string(leaderelection.ReasonSessionLost), e.Reason)
			require.Greater(t, e.Seconds, least)
		case e.Type == event.LeaderElected && e.Node == "n0":
			require.Greater(t, e.Seconds, least, "without a leader for the deadline")
			require.Less(t, e.Seconds, (took + reported).Seconds())
		}
	}
	require.Equal(t, 5, count[event.NodeJoined])
	require.Equal(t, 1, count[event.NodeLost])
	require.Equal(t, 1, count[event.LeaderLost])
	require.Equal(t, 2, count[event.LeaderElected])
	for i, p := range all {
		eventually(t, "the lease", func() bool {
			info, err := p.LeaderInfo(t.Context())
			require.NoError(t, err)
			return info.Address == "n0" && info.ExpiresAt.After(time.Now()) && info.RenewedAt.After(killed)
		})
		for _, e := range found {
			eventually(t, "it has received "+e.ID, func() bool { _, ok := seen.Load(fmt.Sprint(i, e.ID)); return ok })
		}
	}
}

// A node whose session was lost registers again, as another incarnation.
func TestSessionLost(t *testing.T) {
	schema := newSchema(t)
	a := join(t, shared.URL(), schema, "a", deadline, pgnode.Config{Labels: map[string]string{"k": "v"}})
	b := join(t, shared.URL(), schema, "b", deadline, pgnode.Config{})
	awaitLeader(t, "a", 2, a, b)
	before, err := b.MemberTable()
	require.NoError(t, err)
	cutAll(t, schema, "a")
	eventually(t, "a has lost it", func() bool { return a.Status().SessionsLost == 1 })
	awaitLeader(t, "b", 2, a, b)
	after, err := b.MemberTable()
	require.NoError(t, err)
	require.Greater(t, after.Members[0].Incarnation, before.Members[0].Incarnation)
	require.Equal(t, map[string]string{"k": "v"}, after.Members[0].Labels)
	awaitEvents(t, b, "leader_elected a", "node_lost a", "node_joined a", "session_lost a")
	awaitEvents(t, b, "leader_elected a", "leader_lost a")
	awaitEvents(t, b, "leader_elected a", "leader_elected b")
	require.EqualValues(t, 1, a.Status().Terms)
	eventually(t, "the term has ended", func() bool { return a.Status().LastEnd != nil })
	require.Equal(t, leaderelection.ReasonSessionLost, a.Status().LastEnd.Reason)
	eventually(t, "a queues again", func() bool { return a.Status().State == cluster.StateCandidate })
}

// cutAll terminates the connections of a node's session, and every other connection to the schema is left alone.
func cutAll(t testing.TB, schema, owner string) {
	t.Helper()
	_, err := newPool(t, shared.URL()).Exec(patient(t), fmt.Sprintf(`SELECT pg_terminate_backend(l.pid)
		FROM pg_locks l JOIN "%s".session s ON l.locktype = 'advisory' AND l.mode = 'ExclusiveLock'
		AND l.classid = (s.id >> 32)::oid AND l.objid = (s.id & 4294967295)::oid WHERE s.owner = $1`, schema), owner)
	require.NoError(t, err)
}

// The node's own connection is cut: it connects again, and stays registered.
func TestTheConnectionIsCut(t *testing.T) {
	schema := newSchema(t)
	a := join(t, shared.URL(), schema, "a", deadline, pgnode.Config{})
	awaitLeader(t, "a", 1, a)
	db := newPool(t, shared.URL())
	eventually(t, "the connection is there", func() (cut bool) {
		require.NoError(t, db.QueryRow(patient(t), `SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity
			WHERE query LIKE $1 AND pid <> pg_backend_pid()`,
			fmt.Sprintf(`%%json_build_object%%"%s".node%%`, schema)).Scan(&cut))
		return cut
	})
	eventually(t, "it has connected again", func() bool { return a.Status().Rebuilds > 0 && a.Status().Ready })
	require.NoError(t, a.Events().Record(patient(t), "app_after", nil))
	require.Zero(t, a.Status().SessionsLost)
	require.NotContains(t, typesOf(t, a), "node_lost a")
}

// A row that was deleted by hand is made again.
func TestARowIsDeletedByHand(t *testing.T) {
	schema := newSchema(t)
	a := join(t, shared.URL(), schema, "a", deadline, pgnode.Config{})
	awaitLeader(t, "a", 1, a)
	db := newPool(t, shared.URL())
	_, err := db.Exec(patient(t), fmt.Sprintf(`DELETE FROM "%s".node`, schema))
	require.NoError(t, err)
	eventually(t, "it is there again", func() bool {
		s, err := pgnode.Read(patient(t), db, schema)
		require.NoError(t, err)
		return len(s.Nodes) == 1 && a.Status().Ready
	})
	require.True(t, a.IsLeader(), "no decision reads the row")
}

// After a restart of the server all nodes are there again, with one leader; while it is away they are not ready.
func TestTheServerRestarts(t *testing.T) {
	if shared == nil {
		needed.Missing(t, "postgres", pgserver.ErrNotInstalled.Error())
	}
	db := pgserver.StartForTest(t)
	var all []*process
	for i := range 3 {
		all = append(all, join(t, db.URL(), "", fmt.Sprint("n", i), lossDeadline, pgnode.Config{}))
		eventually(t, "it queues", func() bool { return len(all[i].Status().Queue) == i+1 })
	}
	awaitLeader(t, "n0", 3, all...)
	awaitEvents(t, all[0], "leader_elected n0")
	db.Kill()
	for _, p := range all {
		eventually(t, "it is not ready", func() bool { return !p.Status().Ready && p.Status().LeaderID == "" })
		seen := p.Status().ViewSeen
		require.NotEmpty(t, p.Events().Recent())
		require.Equal(t, seen, p.Status().ViewSeen)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _, err := p.Events().List(ctx, event.Query{})
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.NoError(t, db.Restart())
	for _, p := range all {
		eventually(t, "it is ready again", func() bool { return p.Status().ClusterReady && len(p.Status().Nodes) == 3 })
		require.EqualValues(t, 1, p.Status().SessionsLost)
	}
	awaitEvents(t, all[0], "leader_elected n0", "node_joined n0")
	leader := all[0].Status().LeaderID
	awaitLeader(t, leader, 3, all...)
	awaitEvents(t, all[0], "leader_elected n0", "leader_lost n0")
	awaitEvents(t, all[0], "leader_elected n0", "leader_elected "+leader)
	require.NoError(t, all[1].Leave(patient(t)))
}
