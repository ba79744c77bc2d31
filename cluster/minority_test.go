package cluster_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/test/pace"
)

// minorityTTL is long enough for the sessions on the majority's side to survive.
var minorityTTL = pace.TTL(2 * time.Second)

const (
	// promised is the promised time that the loss of a host or a network may take beyond the TTL.
	promised = time.Second
	// busy is additional time for the steps between the limits, which grows with the load of the machine.
	busy = time.Second
)

// One member of etcd is cut off from the other two. A node that reaches no other member is as good as cut off
// itself; a node that reaches one moves over.
//
// To a TTL and the promised second, etcd adds two delays. If its own leader was cut off: the time until another
// one is elected, up to twice the election time-out (and as much again if votes are split), and another election
// time-out by which the new one extends each lease. Otherwise: the time until the isolated follower notices, up
// to twice the election time-out, during which it passes on renewals that no read confirms.
func TestMinoritySide(t *testing.T) {
	t.Parallel()
	t.Run("a follower of etcd's", func(t *testing.T) {
		t.Parallel()
		minoritySide(t, newMembers(t, false), 2*electing)
	})
	t.Run("etcd's leader", func(t *testing.T) {
		t.Parallel()
		minoritySide(t, newMembers(t, true), 3*electing)
	})
}

func minoritySide(t *testing.T, m *members, etcds time.Duration) {
	alone := m.start("alone", false, m.minority())
	three := m.start("three", false, append([]string{m.minority()}, m.majority()...)...)
	two := m.start("two", false, m.minority(), m.majority()[0])
	rest := m.start("rest", false, m.majority()...)
	m.record()
	for _, n := range []*boundNode{alone, three, two, rest} {
		m.work(n)
	}
	old := map[*boundNode]*etcdsession.Session{}
	for _, n := range []*boundNode{alone, three, two, rest} {
		m.await(func() bool { return alone.IsLeader() && len(n.Status().Queue) == 4 }, "all queue, the first one leads")
		old[n] = inspect.Session(n.Cluster)
	}

	end := m.rec.BeginFault(alone.name, "its member of etcd isolated", "")
	meter := pace.StartMeter(t)
	m.etcd.IsolateMember(m.cut)
	cut := time.Now()
	led := make(chan error, 1)
	m.wg.Go(func() { led <- leadsUntilDeadline(alone, old[alone]) })

	// A node that joins now is seen by nodes that reach another member. The others report the reason.
	added := m.start("added", true, m.majority()[1])
	m.await(func() bool { return three.sees(added) && two.sees(added) && rest.sees(added) }, "they move over")
	moved := time.Since(cut)
	require.NoError(t, <-led)
	require.False(t, old[alone].Deadline().After(cut.Add(minorityTTL)))
	m.await(func() bool { return alone.log.Line("the session is lost") != "" }, "it says so")
	require.NotEmpty(t, alone.log.Line("could not renew the session"))
	if reason := session.ReasonOf(old[alone].Err()); reason != session.ReasonPaused { // possible on an overloaded machine
		require.Equal(t, session.ReasonUnreachable, reason)
	}
	m.await(func() bool { return alone.Status().LastEnd != nil }, "its term is over")
	st := alone.Status()
	require.Equal(t, leaderelection.ReasonSessionLost, st.LastEnd.Reason)
	require.Empty(t, st.LeaderID, "who is cut off cannot say")
	require.False(t, st.Ready)
	require.False(t, st.SessionValid)
	require.False(t, alone.sees(added))

	m.await(three.IsLeader, "the next one in the queue leads")
	took := time.Since(cut)
	t.Logf("the others had moved over after %v, the next one leads after %v; the machine is slower by a factor of %.1f",
		moved, took, meter.Slowdown())
	require.Less(t, moved, minorityTTL+etcds+meter.Scale(busy), "by when a session must have")
	require.Less(t, took, minorityTTL+promised+etcds+meter.Scale(busy))
	m.await(func() bool { return rest.GetLeaderNode() == three.address() && two.GetLeaderNode() == three.address() },
		"all agree")
	register := m.rec.Register(three.name, m.client, "/elsewhere")
	m.await(func() bool {
		term, leads := three.Term()
		return leads && register.Write(clientv3.WithRequireLeader(etcdtest.Context(t)),
			term).Outcome == history.OutcomeAccepted
	}, "its writes get through")

	m.etcd.RejoinMember(m.cut)
	end()
	queue := []string{three.address(), two.address(), rest.address(), alone.address()}
	for _, n := range []*boundNode{alone, three, two, rest} {
		m.await(func() bool { st := n.Status(); return st.Ready && slices.Equal(st.Queue, queue) }, n.name+" sees all queued")
	}
	for _, n := range []*boundNode{three, two, rest} {
		require.Same(t, old[n], inspect.Session(n.Cluster), "%s keeps its session", n.name)
		require.NoError(t, old[n].Err())
		require.Zero(t, n.Status().SessionsLost)
	}
	for _, n := range []*boundNode{three, two} {
		require.Positive(t, n.Status().Rebuilds, "the watch of %s was at the member that was cut off", n.name)
	}
	require.EqualValues(t, 1, alone.Status().SessionsLost)
	m.await(func() bool { return alone.log.Line("session restored") != "" }, "it says so")
}

// leadsUntilDeadline returns nil once the session's deadline has passed, if the node led until the deadline and
// no instant longer.
func leadsUntilDeadline(n *boundNode, s *etcdsession.Session) error {
	for began := time.Now(); ; <-time.After(time.Millisecond) {
		before := time.Now()
		leads := n.IsLeader()
		after, deadline := time.Now(), s.Deadline()
		switch {
		case leads && time.Since(began) > 10*time.Second:
			return errors.New("its deadline is put off again and again")
		case leads && before.After(deadline):
			return fmt.Errorf("it leads %v after its deadline", before.Sub(deadline))
		case !leads && after.Before(deadline):
			return fmt.Errorf("it leads no more %v before its deadline", deadline.Sub(after))
		case !leads:
			return nil
		}
	}
}
