package clustertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A leader that hears no more of etcd, as a process does that stands still beyond
// its TTL, must have lowered its flag before another raises it. All flags are read
// many times a millisecond.
//
// Guards: Session.Valid, which compares the clock with a deadline that counts from
// when the last renewal was sent; clientv3's own counts from its answer.
func TestDeadlineDemotesBeforeTheNextLeads(t *testing.T) {
	for name, fault := range map[string]func(f *Faults){
		"paused":         func(f *Faults) { f.StopRenewing(); f.CutOff() },
		"cut off":        (*Faults).CutOff,
		"renewals stuck": (*Faults).StopRenewing,
		// The watch is not what demotes.
		"renewals stuck, watch frozen": func(f *Faults) { f.StopRenewing(); f.FreezeWatch() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New(t, 3, WithTTL(1))
			leader := c.Node(0)
			c.WaitLeaderIs(leader.Address())
			s := sample(c)
			began := time.Now()
			fault(leader.Faults())
			c.Eventually(func() bool { return !leader.IsLeader() }, "the old leader goes quiet")
			c.Eventually(func() bool { return c.Node(1).IsLeader() || c.Node(2).IsLeader() }, "another leads")
			require.Less(t, time.Since(began), 3*time.Second, "a TTL, etcd's own half a second, and some")
			leader.Faults().clear()
			c.Eventually(func() bool { return len(leader.Cluster().Status().Queue) == 3 }, "it queues again")
			c.WaitAgreed()
			s.end(t)
		})
	}
}
