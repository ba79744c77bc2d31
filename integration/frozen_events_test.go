//go:build unix

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/pace"
)

// eventsOf returns the events of a node's /cluster/events.
func eventsOf(n *procs.Node) ([]event.Event, error) {
	resp, err := http.Get(n.Origin() + "/cluster/events")
	if err != nil {
		return nil, err
	}
	var body httpapi.Events
	err = json.NewDecoder(resp.Body).Decode(&body)
	return body.Events, errors.Join(err, resp.Body.Close())
}

// The events about a frozen leader report how long it had been silent, how long there was no leader, and how
// long it had no session. They are in the order of their times.
func TestEventsOfAFrozenLeader(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	etcd := kit.StartEtcd(t, procs.Etcd37)
	nodes, _ := startNodes(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: ttl}, 3)
	old, next := nodes[0], nodes[1]
	former := awaitAgreement(t, patience, nodes, old.Address, election, addresses(nodes)).Token

	meter := pace.StartMeter(t)
	frozen := old.Freeze(t)
	st, _ := next.AwaitStatus(t, patience, "leads", leads)
	led := time.Since(frozen)
	procs.SleepUntil(frozen.Add(ttl + ttl/2))
	old.Thaw(t)
	stood := time.Since(frozen)

	var all []event.Event
	of := func(what event.Type, node string) *event.Event {
		i := slices.IndexFunc(all, func(e event.Event) bool {
			return e.Type == what && e.Node == node && !e.Time.Before(frozen.Add(-ttl))
		})
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	procs.Await(t, patience, "the events are recorded", func() (err error) { // by several nodes
		all, err = eventsOf(next)
		for what, node := range map[event.Type]string{event.SessionLost: old.Address, event.LeaderLost: old.Address,
			event.LeaderElected: next.Address, event.ClusterRecovered: next.Address} {
			if err == nil && of(what, node) == nil {
				err = fmt.Errorf("no %s", what)
			}
		}
		return err
	})
	for _, e := range all {
		t.Logf("%+6.2fs %s %s %.2fs %s", e.Time.Sub(frozen).Seconds(), e.Type, e.Node, e.Seconds, e.Reason)
	}
	// A heartbeat is seen every half second, and the lease may have been renewed just before. The rest is
	// tolerance for a busy machine.
	seconds := func(e *event.Event, least, most time.Duration, what string) {
		t.Helper()
		require.NotNil(t, e, what)
		require.GreaterOrEqual(t, e.Seconds, least.Seconds(), "%s: %v", what, *e)
		require.LessOrEqual(t, e.Seconds, most.Seconds(), "%s: %v", what, *e)
	}
	about := meter.Scale(2 * time.Second)
	seconds(of(event.LeaderLost, old.Address), led-about, led+about, "it had been silent")
	var elected *event.Event
	for i := range all {
		if all[i].Type == event.LeaderElected && all[i].Token == st.Token {
			elected = &all[i]
		}
	}
	seconds(elected, led-about, led+about, "nobody led")
	seconds(of(event.ClusterRecovered, next.Address), led-about, led+about, "nobody led")
	i := slices.IndexFunc(all, func(e event.Event) bool {
		return e.Type == event.ClusterDegraded && e.Token == former // excludes the time before the first leader
	})
	require.GreaterOrEqual(t, i, 0, "nobody led")
	require.WithinDuration(t, frozen, all[i].Time, about, "from when it stood still")
	seconds(of(event.SessionLost, old.Address), stood-ttl, stood-ttl/2+about, "it had no session")
	require.True(t, slices.IsSortedFunc(all, func(a, b event.Event) int { return a.Time.Compare(b.Time) }),
		fmt.Sprint("in the order of their times: ", all))
}
