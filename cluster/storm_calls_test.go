package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/member/request"
	"github.com/goverse/goverse/internal/peer"
	"github.com/goverse/goverse/internal/test/nodetest"
)

const stormProcessor = "storm"

// callBound limits the time of one call of a storm.
const callBound = 200 * time.Millisecond

// stormCalls lists the calls made beside Start and Stop, each repeatedly in one goroutine. They may fail with the
// errors of a node that is not started, or stops.
var stormCalls = map[string]func(ctx context.Context, n *stormNode){
	"looks": func(_ context.Context, n *stormNode) {
		c := n.cluster
		_, _, _, _, _, _ = c.IsLeader(), c.GetLeaderNode(), c.Status(), c.Members(), c.Session().Valid(), c.Leader()
		_, _ = c.Term()
		_ = (*peer.Node)(c.Node()).Watchers()
		_, _ = c.GetConsensusManager().IsLeader(), c.GetConsensusManager().Mode()
	},
	"leader": func(ctx context.Context, n *stormNode) {
		_, _ = n.cluster.WaitForLeader(ctx)
		_, _ = n.cluster.LeaderInfo(ctx)
	},
	"watch": func(ctx context.Context, n *stormNode) {
		if leaders, err := n.cluster.WatchLeader(ctx); err == nil {
			for range leaders {
			}
		}
	},
	"lead": func(ctx context.Context, n *stormNode) {
		_ = n.cluster.Lead(ctx, func(ctx context.Context, _ leaderelection.Term) error {
			<-ctx.Done()
			return nil
		})
	},
	"resign": func(ctx context.Context, n *stormNode) {
		_ = n.cluster.Resign(ctx)
		_ = n.cluster.Transfer(ctx, n.w.nodes[0].cluster.Node().AdvertiseAddress())
		<-ctx.Done()
	},
	"drain": func(ctx context.Context, n *stormNode) {
		defer func() { <-ctx.Done() }()
		s := inspect.Snapshot(n.cluster)
		if s == nil {
			return
		}
		for _, m := range s.Members {
			if request.Drain(ctx, n.w.c.Client(), nodetest.Keys, n.cluster.Session().ID(), m, false) == nil {
				_, _ = n.w.c.Client().Delete(ctx, nodetest.Keys.Drain(m.Address))
			}
		}
	},
	"lock": func(ctx context.Context, n *stormNode) {
		if held, err := n.cluster.Locks().Acquire(ctx, "one"); err == nil {
			_ = held.Release(ctx)
		}
	},
	"locks held": func(ctx context.Context, n *stormNode) {
		if held, ok, err := n.cluster.Locks().TryAcquire(ctx, "shared", lock.Shared()); err == nil && ok {
			<-held.Context().Done()
			_ = held.Release(context.Background())
		}
	},
	"election": func(ctx context.Context, n *stormNode) {
		e, err := n.cluster.Elections().Stand("named", leaderelection.Priority(len(n.label)%3))
		if err != nil {
			return
		}
		_ = e.Lead(ctx, func(ctx context.Context, _ leaderelection.Term) error {
			<-ctx.Done()
			return nil
		})
		_ = e.Resign(ctx)
	},
	"elections followed": func(ctx context.Context, n *stormNode) {
		e, err := n.cluster.Elections().Observe("followed")
		if err != nil {
			return
		}
		defer e.Close()
		seen, err := e.Watch(ctx)
		if err != nil {
			return
		}
		for range seen {
		}
	},
	"once": func(ctx context.Context, n *stormNode) {
		name := fmt.Sprintf("effect-%d", time.Now().UnixNano()/int64(50*time.Millisecond))
		_, _ = n.cluster.Once(ctx, name, func(context.Context, int64) ([]byte, error) { return []byte("x"), nil })
	},
	"shards": func(ctx context.Context, n *stormNode) {
		shards := n.cluster.Shards()
		work := func(ctx context.Context, _ int64) error {
			<-ctx.Done()
			return nil
		}
		_ = shards.Serve(ctx, n.label, work)
		_ = shards.Hold(ctx, n.label, work)
		_ = shards.HoldAlone(ctx, n.label, "alone", work)
	},
	"processor": func(ctx context.Context, n *stormNode) {
		p, err := processor.New(processor.Config[int]{Name: stormProcessor, Source: numbers{},
			Checkpoint: n.cluster.Checkpoints(),
			LeaderLock: processor.Election(n.cluster.Elections(), "processor"), Handler: func(context.Context,
				processor.Event[int]) error {
				return nil
			}})
		if err == nil {
			_ = p.Run(ctx)
		}
	},
	"http": func(ctx context.Context, n *stormNode) {
		client := &http.Client{Transport: &http.Transport{}, Timeout: callBound}
		defer client.CloseIdleConnections()
		for _, path := range []string{"/cluster/status", "/cluster/leader", "/metrics", "/cluster/shards", "/leader-only",
			"/readyz"} {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.http.Address()+path, http.NoBody)
			if resp, err := client.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		}
	},
}

// numbers is an endless source.
type numbers struct{}

func (numbers) Read(_ context.Context, after processor.Position, limit int) ([]processor.Event[int], error) {
	last := 0
	if after != "" {
		if _, err := fmt.Sscanf(string(after), "%d", &last); err != nil {
			return nil, err
		}
	}
	var out []processor.Event[int]
	for i := range min(limit, 5) {
		out = append(out, processor.Event[int]{Position: processor.Position(fmt.Sprintf("%09d", last+i+1)), Value: last + i +
			1})
	}
	return out, nil
}

// repeat calls until the round is over, with pauses that leave the machine time for other work.
func (n *stormNode) repeat(over context.Context, call func(context.Context, *stormNode)) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ctx, cancel := context.WithTimeout(over, callBound)
		call(ctx, n)
		cancel()
		n.w.count.calls.Add(1)
		select {
		case <-tick.C:
		case <-over.Done():
			return
		}
	}
}
