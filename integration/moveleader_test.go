//go:build linux

package integration

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
)

var leaderMoves = flag.Int("moveleader.moves", 6, "how often etcd's leader changes in TestEtcdsLeaderMoves")

const (
	movedSessions = 50
	// movedTTL is so long that this process, on a machine busy with others, loses no session for lack of
	// processor time.
	movedTTL = 30 * time.Second
	// movedNodesTTL is short, so that the nodes renew often, but outlives two renewals that come late.
	movedNodesTTL = 6 * time.Second
)

// In ordinary operation a change of etcd's leader ends no session and no leadership, although renewals during
// the change have no effect.
func TestEtcdsLeaderMoves(t *testing.T) {
	// Runs alone: the sessions belong to this process, and if it is paused again and again, it loses them.
	members := kit.StartMembers(t, procs.Etcd37, 3, 0)
	all := strings.Join(members.Endpoints, ",")
	nodes, _ := startNodes(t, procs.NodeConfig{Etcd: all, TTL: movedNodesTTL}, 2)
	before := awaitAgreement(t, patience, nodes, nodes[0].Address, "election", nil)

	var sessions []*etcdsession.Session
	for i := range movedSessions {
		s, err := etcdsession.Open(requestContext(t), etcdsession.Config{TTL: movedTTL,
			Process: etcd.Process{Client: members.Client(i % 3)}})
		require.NoError(t, err)
		defer func() { _ = s.Close(context.Background()) }()
		sessions = append(sessions, s)
	}
	stop := load(t, members)
	asked := func(method, metric string) (n int) {
		for _, endpoint := range members.Endpoints {
			n += metricOf(t, endpoint, metric, `grpc_method="`+method+`"`)
		}
		return n
	}
	began, renewals, reads := time.Now(), asked("LeaseKeepAlive", "grpc_server_msg_received_total"), asked("Txn",
		"grpc_server_started_total")
	for move := range *leaderMoves {
		members.MoveLeaderTo(t, move%3)
		moved := time.Now()
		for i, s := range sessions {
			if i%10 == 0 { // some are renewed between two moves
				s.RequestRenewal()
				procs.Await(t, patience, "a renewal after the move", func() error {
					if !s.RenewedAt().After(moved) {
						return fmt.Errorf("session %d: last renewed %v, lost: %v", i, s.RenewedAt(), s.Err())
					}
					return nil
				})
			}
			require.NoError(t, s.Err())
		}
	}
	took, puts := time.Since(began), stop()
	renewals, reads = asked("LeaseKeepAlive", "grpc_server_msg_received_total")-renewals, asked("Txn",
		"grpc_server_started_total")-reads
	t.Logf("etcd's leader moved %d times in %v, beside %d puts: no session of %d lost; %d renewals, %d reads and other "+
		"transactions",
		*leaderMoves, took.Round(time.Second), puts, len(sessions)+len(nodes), renewals, reads)
	after := awaitAgreement(t, patience, nodes, nodes[0].Address, "election", nil)
	require.Equal(t, before.Token, after.Token, "the same term")
	for _, n := range nodes {
		require.NotContains(t, n.Output(), lostSession)
	}
}

// load writes through every member until stop is called. stop returns the number of successful writes.
func load(t *testing.T, members *procs.Members) (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	done := make([]int, len(members.Endpoints))
	for i := range members.Endpoints {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := members.Client(i).Put(clientv3.WithRequireLeader(ctx), fmt.Sprint("load/", i), "x"); err == nil {
					done[i]++
				}
			}
		})
	}
	stop = sync.OnceValue(func() (puts int) {
		cancel()
		wg.Wait()
		for _, n := range done {
			puts += n
		}
		return puts
	})
	t.Cleanup(func() { stop() })
	return stop
}
