package leaderelection_test

import (
	"strings"
	"testing"
	"time"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/faults"
	"github.com/goverse/goverse/internal/test/nodetest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/stretchr/testify/require"
)

// A leader that no longer hears from etcd, like a process that is paused beyond its TTL, must lower its flag
// before another node raises its own. All flags are read many times a millisecond.
//
// Guards: Session.Valid, which compares the clock with a deadline that counts from the time at which the last
// renewal was sent. clientv3's own deadline counts from the answer.
func TestDeadlineDemotesBeforeTheNextLeads(t *testing.T) {
	for _, together := range [][]faults.Fault{
		{faults.RenewalsStuck, faults.RequestsStuck}, // like a paused process
		{faults.RequestsStuck},
		{faults.RenewalsStuck},
		{faults.RenewalsStuck, faults.WatchFrozen}, // the watch is not the reason to demote
	} {
		var names []string
		for _, f := range together {
			names = append(names, f.Name)
		}
		t.Run(strings.Join(names, ", "), func(t *testing.T) {
			t.Parallel()
			c := clustertest.New(t, 3, clustertest.WithTTL(1))
			leader := c.Node(0)
			c.WaitLeaderIs(leader.Address())
			s := nodetest.StartSampler(c)
			meter := pace.StartMeter(t)
			began := time.Now()
			toEtcd := faults.Target{Client: leader.Faults()}
			for _, f := range together {
				f.Begin(toEtcd, nil) // none of them draws
			}
			c.Eventually(func() bool { return !leader.IsLeader() }, "the old leader goes quiet")
			c.Eventually(func() bool { return c.Node(1).IsLeader() || c.Node(2).IsLeader() }, "another leads")
			require.Less(t, time.Since(began), meter.Scale(3*time.Second), "a TTL, etcd's own half a second, and some")
			require.NoError(t, toEtcd.EndFaults())
			c.Eventually(func() bool { return len(leader.Cluster().Status().Queue) == 3 }, "it queues again")
			c.WaitAgreed()
			s.Stop(t)
		})
	}
}
