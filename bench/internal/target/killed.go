package target

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/reexec"
	"github.com/goverse/goverse/bench/internal/sample"
)

// killPeers kills n leaders of concurrency.Election within a third of the TTL, each in a process of its own and
// at a random time of its renewal cycle. It returns the times from the signal until the next candidate's
// Campaign returned.
func killPeers(ctx context.Context, p *etcdproc.Process, n int, ttl time.Duration) (*sample.Series, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*ttl+30*time.Second)
	defer cancel()
	took, errs := make([]time.Duration, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { took[i], errs[i] = killPeer(ctx, p.Endpoint, fmt.Sprintf("/killed-%d", i), ttl) })
	}
	wg.Wait()
	series := sample.Millis("concurrency.Election, killed")
	for _, d := range took {
		series.Add(d)
	}
	return series, errors.Join(errs...)
}

func killPeer(ctx context.Context, endpoint, prefix string, ttl time.Duration) (took time.Duration, err error) {
	seconds := int(ttl / time.Second)
	old, err := reexec.Start(reexec.CampaignArg, endpoint, prefix, strconv.Itoa(seconds))
	if err != nil {
		return 0, err
	}
	defer func() { _ = old.Stop() }() // it was killed
	clients, closeAll, err := dial(ctx, endpoint, 1)
	if err != nil {
		return 0, err
	}
	defer closeAll()
	won, err := campaignNext(ctx, clients[0], prefix, seconds)
	if err != nil {
		return 0, err
	}
	rest(ctx, rand.N(ttl/3))
	started := time.Now()
	if err := old.Kill(); err != nil {
		return 0, err
	}
	select {
	case next := <-won:
		return next.at.Sub(started), next.err
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the peer: %w", ctx.Err())
	}
}

type win struct {
	at  time.Time
	err error
}

// campaignNext starts a campaign and returns when its key is in the queue.
func campaignNext(ctx context.Context, client *clientv3.Client, prefix string, ttl int) (<-chan win, error) {
	s, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	if err != nil {
		return nil, err
	}
	won := make(chan win, 1)
	go func() { // ends with ctx at the latest
		err := concurrency.NewElection(s, prefix).Campaign(ctx, "next")
		won <- win{time.Now(), err}
	}()
	key := fmt.Sprintf("%s/%x", prefix, s.Lease())
	for {
		resp, err := client.Get(ctx, key, clientv3.WithCountOnly())
		if err != nil || resp.Count == 1 {
			return won, err
		}
		rest(ctx, 5*time.Millisecond)
	}
}
