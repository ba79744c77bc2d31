package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/node"
)

// handles are kept by a service from before Start on.
type handles struct {
	c           *cluster.Cluster
	consensus   *cluster.ConsensusManager
	shards      *cluster.Shards
	elections   *cluster.Elections
	locks       *cluster.Locks
	effects     *cluster.Effects
	checkpoints *cluster.Checkpoints
	objects     *objects.Objects
}

func handlesOf(c *cluster.Cluster) handles {
	return handles{c, c.GetConsensusManager(), c.Shards(), c.Elections(), c.Locks(), c.Effects(), c.Checkpoints(),
		c.Objects()}
}

// use calls every method, and returns the errors by method. None of the calls blocks for long.
func (h handles) use(ctx context.Context) map[string]error {
	errs := map[string]error{}
	_, _, _, _ = h.c.IsLeader(), h.c.GetLeaderNode(), h.c.Leader(), h.c.Status()
	_, _, _, _ = h.consensus.IsLeader(), h.consensus.GetLeaderNode(), h.consensus.Leader(), h.consensus.Mode()
	_, _, _ = h.c.Members(), h.consensus.Members(), h.c.Node()
	_, _ = h.c.Member("nobody:1")
	_, _ = h.consensus.Member("nobody:1")
	_, _ = h.consensus.Term()
	_, _ = h.consensus.Owner("a")
	_, _ = h.consensus.OwnerOf(-1)
	if t, leads := h.c.Term(); leads {
		_, _, _, _ = t.Token(), t.Valid(), t.Guard(), t.AcquiredAt()
		_, errs["term.Txn"] = t.Txn(ctx).Then(clientv3.OpGet("/x")).Commit()
	}
	s := h.c.Session()
	_, _, _, _, _, _, _ = s.ID(), s.TTL(), s.Valid(), s.Deadline(), s.Left(), s.Context(), s.Renewed()
	errs["session"] = s.Err()
	brief, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	nothing := func(context.Context, leaderelection.Term) error { return nil }
	work := func(context.Context, int64) error { return nil }
	_, errs["WaitForSession"] = h.c.WaitForSession(brief)
	_, errs["WatchLeader"] = h.c.WatchLeader(brief)
	_, errs["WatchMembers"] = h.c.WatchMembers(brief)
	_, errs["WaitForLeader"] = h.c.WaitForLeader(brief)
	_, errs["consensus.WatchLeader"] = h.consensus.WatchLeader(brief)
	_, errs["consensus.WatchMembers"] = h.consensus.WatchMembers(brief)
	_, errs["consensus.WatchOwner"] = h.consensus.WatchOwner(brief, "a")
	_, errs["consensus.WatchOwnerOf"] = h.consensus.WatchOwnerOf(brief, 0)
	_, errs["consensus.WaitForLeader"] = h.consensus.WaitForLeader(brief)
	_, errs["LeaderInfo"] = h.c.LeaderInfo(brief)
	errs["Lead"] = h.c.Lead(brief, nothing)
	errs["LeadEach"] = h.c.LeadEach(brief, nothing)
	errs["AsLeader"] = h.c.AsLeader(brief, nothing)
	errs["Resign"] = h.c.Resign(brief)
	errs["Transfer"] = h.c.Transfer(brief, "nobody:1")

	_, _, _ = h.shards.Count(), h.shards.Shard("a"), h.shards.Held()
	_, _ = h.shards.Owner("a")
	_, _ = h.shards.OwnerOf(0)
	_, _ = h.shards.OwnerOf(-1)
	epoch, _ := h.shards.Serves(0)
	_, _ = h.shards.Serves(1 << 20)
	_, errs["shards.WatchOwner"] = h.shards.WatchOwner(brief, "a")
	errs["shards.Serve"] = h.shards.Serve(brief, "a", work)
	errs["shards.Hold"] = h.shards.Hold(brief, "a", work)
	errs["shards.HoldAlone"] = h.shards.HoldAlone(brief, "a", "b", work)
	_, errs["shards.Txn"] = h.shards.Ownership(0, epoch).Txn(brief).Then(clientv3.OpGet("/x")).Commit()
	_, errs["ShardTable"] = h.c.ShardTable()

	if c, err := h.elections.Stand("e", leaderelection.Priority(1)); err != nil {
		errs["elections.Stand"] = err
	} else {
		_, _, _, _, _ = c.Name(), c.Leader(), c.Queue(), c.IsLeader(), c.Err()
		_, _ = c.Term()
		errs["candidate.LeadEach"] = c.LeadEach(brief, nothing)
		errs["candidate.Lead"] = c.Lead(brief, nothing)
		errs["candidate.AsLeader"] = c.AsLeader(brief, nothing)
		errs["candidate.Resign"] = c.Resign(brief)
		_, errs["candidate.Watch"] = c.Watch(brief)
		_, errs["candidate.WatchErr"] = c.WatchErr(brief)
		errs["candidate.Transfer"] = c.Transfer(brief, "nobody:1")
		if err := c.Withdraw(brief); err != nil { // before Start it only cancels the request
			errs["candidate.Withdraw"] = err
		}
	}
	if e, err := h.elections.Observe("f"); err != nil {
		errs["elections.Observe"] = err
	} else {
		_, errs["election.WaitForLeader"] = e.WaitForLeader(brief)
		_, errs["election.Watch"] = e.Watch(brief)
		errs["election.RequestResign"] = e.RequestResign(brief)
		e.Close()
		e.Close()
	}
	if held, err := h.locks.Acquire(brief, "l"); err != nil {
		errs["locks.Acquire"] = err
	} else {
		_, _, _, _, _ = held.Name(), held.Token(), held.Valid(), held.Context(), held.Guard()
		errs["held.Release"] = held.Release(ctx)
	}
	_, _, errs["locks.List"] = h.locks.List(brief, lock.Query{})
	if held, ok, err := h.locks.TryAcquire(brief, "m"); err != nil {
		errs["locks.TryAcquire"] = err
	} else if ok {
		errs["held.Release"] = held.Release(ctx)
	}
	_, errs["Once"] = h.c.Once(brief, "o", func(context.Context, int64) ([]byte, error) { return nil, nil })
	errs["effects.Resolve"] = h.effects.Resolve(brief, "p", 1, true, nil)
	_, errs["effects.Look"] = h.effects.Look(brief, "p")
	_, _, errs["effects.List"] = h.effects.List(brief, once.Query{})
	mark, err := h.checkpoints.Claim(brief, "c", 0)
	errs["checkpoints.Claim"] = err
	_, errs["checkpoints.Advance"] = h.checkpoints.Advance(brief, "c", mark, func(context.Context) (processor.Progress,
		error) {
		return processor.Progress{}, nil
	})
	_, errs["checkpoints.Parked"] = h.checkpoints.Parked(brief, "c")
	_, errs["checkpoints.Report"] = h.checkpoints.Report(brief, "c", processor.Report{Status: processor.Status{
		Token: mark.Token}})
	if _, err := h.checkpoints.ParkedEvent(brief, "c", "1"); !errors.Is(err, processor.ErrNotParked) {
		errs["checkpoints.ParkedEvent"] = err
	}
	if err := h.checkpoints.RequestRetry(brief, "c", "1"); !errors.Is(err, processor.ErrNotParked) {
		errs["checkpoints.RequestRetry"] = err
	}
	_, errs["checkpoints.Look"] = h.checkpoints.Look(brief, "c")
	_, _, errs["checkpoints.List"] = h.checkpoints.List(brief, processor.Query{})
	errs["checkpoints.RequestPause"] = h.checkpoints.RequestPause(brief, "c", processor.PauseRequest{})
	errs["checkpoints.Forget"] = h.checkpoints.Forget(brief, "c", "1")
	errs["checkpoints.Rewind"] = h.checkpoints.Rewind(brief, "c", "")
	errs["checkpoints.Unfence"] = h.checkpoints.Unfence(brief, "c")
	_, _ = h.objects.Stats(), h.objects.At("a")
	_, _ = h.objects.Find("a")
	errs["objects.At.Invoke"] = h.objects.At("a").Invoke(brief, "/none.None/None", &emptypb.Empty{}, &emptypb.Empty{})
	_, errs["objects.At.NewStream"] = h.objects.At("a").NewStream(brief, &grpc.StreamDesc{}, "/none.None/None")
	return errs
}

// requireAll requires that every call on a node that does not run fails with want, or with ErrShardingOff.
func (h handles) requireAll(t *testing.T, want error, off bool) {
	t.Helper()
	for what, err := range h.use(t.Context()) {
		if off && (what == "ShardTable" || len(what) > 7 && what[:7] == "shards.") {
			require.ErrorIs(t, err, cluster.ErrShardingOff, what)
			continue
		}
		require.ErrorIs(t, err, want, what)
	}
	_, owned := h.shards.Owner("a")
	_, serves := h.shards.Serves(0)
	require.False(t, owned || serves || h.c.IsLeader() || h.consensus.IsLeader() || h.c.Session().Valid())
	require.Zero(t, h.consensus.GetLeaderNode()+h.c.GetLeaderNode())
	_, leads := h.c.Term()
	require.False(t, leads)
	require.Error(t, h.c.Session().Context().Err())
}

// Methods that need a running node return the same errors everywhere. Those without an error return zero values.
// While the node runs all of them work.
func TestHandlesFromTheBeginningToTheEnd(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	for _, off := range []bool{false, true} {
		ctx := etcdtest.Context(t)
		n, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
		require.NoError(t, err)
		c, err := cluster.NewClusterWithNode(cluster.Config{Client: etcd.Client(), EtcdPrefix: fmt.Sprintf("/handles/%t",
			off),
			Sharding: cluster.Sharding{Off: off, Shards: 8, Window: time.Millisecond}}, n)
		require.NoError(t, err)
		h := handlesOf(c)
		h.requireAll(t, cluster.ErrNotStarted, off)
		require.NoError(t, c.Start(ctx))
		require.Eventually(t, c.IsLeader, time.Minute, time.Millisecond)
		for what, err := range h.use(ctx) {
			require.NotErrorIs(t, err, cluster.ErrNotStarted, what)
			require.NotErrorIs(t, err, cluster.ErrStopped, what)
			require.Equal(t, off && (what == "ShardTable" || len(what) > 7 && what[:7] == "shards."), errors.Is(err,
				cluster.ErrShardingOff), what)
		}
		require.NoError(t, c.Stop(ctx))
		h.requireAll(t, cluster.ErrStopped, off)
		require.Equal(t, h, handlesOf(c), "handles stay the same")
	}
}

// A gRPC service of the program uses every handle in each of its calls, from before Start until after Stop. No
// call ends the process.
func TestServiceThatAnswersFromItsFirstInstant(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	for _, off := range []bool{false, true} {
		for range 3 {
			serveFromFirstInstant(t, etcd.Client(), off)
		}
	}
}

func serveFromFirstInstant(t *testing.T, client *clientv3.Client, off bool) {
	ctx := etcdtest.Context(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	n, err := node.NewNode(node.Config{AdvertiseAddress: address})
	require.NoError(t, err)
	c, err := cluster.NewClusterWithNode(cluster.Config{Client: client, EtcdPrefix: "/service" +
		address, WorkTimeout: time.Second,
		Sharding: cluster.Sharding{Off: off, Shards: 8, Window: time.Millisecond, DrainTimeout: time.Second}}, n)
	require.NoError(t, err)
	h := handlesOf(c)
	var answered [3]atomic.Int64 // before Start has returned, while the node runs, and from Stop on
	var phase atomic.Int64
	n.Server().RegisterService(&grpc.ServiceDesc{ServiceName: "test.Uses", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "All",
			Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				at := phase.Load()
				_ = h.use(ctx) // its errors are checked by another test
				answered[at].Add(1)
				return &emptypb.Empty{}, decode(&emptypb.Empty{})
			}}}}, struct{}{})
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	calling, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for calling.Err() == nil {
				_ = conn.Invoke(calling, "/test.Uses/All", &emptypb.Empty{}, &emptypb.Empty{}, grpc.WaitForReady(true))
			}
		})
		wg.Go(func() {
			for calling.Err() == nil { // also if no call succeeds
				_ = h.use(calling)
			}
		})
	}
	assert.NoError(t, c.Start(ctx))
	phase.Store(1)
	require.Eventually(t, func() bool { return answered[1].Load() > 10 }, time.Minute, time.Millisecond)
	phase.Store(2)
	assert.NoError(t, c.Stop(ctx))
	stop()
	require.NoError(t, conn.Close())
	wg.Wait()
	h.requireAll(t, cluster.ErrStopped, off)
	t.Logf("sharding off: %t; calls answered during Start %d, running %d, during Stop %d", off, answered[0].Load(),
		answered[1].Load(), answered[2].Load())
}
