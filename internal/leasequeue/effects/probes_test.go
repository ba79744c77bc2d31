//go:build unix

package effects_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	probeInterval = 20 * time.Millisecond // between requests of one kind
	probeTimeout  = 30 * time.Second
	probeLease    = 60 // seconds
	// Once a second a lease without renewals ends, like that of a node on a lost host.
	lostInterval = time.Second
	lostTTL      = 5 * time.Second
	lostLease    = "end of a lost lease"
)

// probes are clients of etcd, each at one member. They write, read and renew a lease fifty times a second, and
// measure each request from the time at which it was due: one that waits does not delay others.
type probes struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu   sync.Mutex
	took map[string][]time.Duration
	errs []error
}

func startProbes(ctx context.Context, t *testing.T, clients []*clientv3.Client) *probes {
	t.Helper()
	ticking, cancel := context.WithCancel(ctx)
	p := &probes{cancel: cancel, took: map[string][]time.Duration{}}
	t.Cleanup(p.stop)
	for i, client := range clients {
		resp, err := client.Grant(ctx, probeLease)
		require.NoError(t, err)
		key := fmt.Sprint("probe/", i)
		for what, request := range map[string]func(context.Context) error{
			"write": func(ctx context.Context) error {
				_, err := client.Txn(ctx).If(clientv3.Compare(clientv3.Version(key), ">", -1)).Then(clientv3.OpPut(key,
					"")).Commit()
				return err
			},
			"read": func(ctx context.Context) error {
				_, err := client.Get(ctx, key)
				return err
			},
			"renewal": func(ctx context.Context) error {
				_, err := client.KeepAliveOnce(ctx, resp.ID)
				return err
			},
		} {
			p.wg.Go(func() { p.every(ticking, probeInterval, func(due time.Time) { p.request(ctx, what, due, request) }) })
		}
	}
	if len(clients) > 0 {
		p.wg.Go(func() { p.every(ticking, lostInterval, func(time.Time) { p.lost(ctx, clients[0]) }) })
	}
	return p
}

// every calls do at each interval until ctx ends, even if earlier calls have not returned.
func (p *probes) every(ctx context.Context, interval time.Duration, do func(due time.Time)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for due := time.Now(); ; due = due.Add(interval) {
		select {
		case <-time.After(time.Until(due)):
			wg.Go(func() { do(due) })
		case <-ctx.Done():
			return
		}
	}
}

func (p *probes) request(ctx context.Context, what string, due time.Time, request func(context.Context) error) {
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := request(limited)
	p.add(ctx, what, time.Since(due), err)
}

// lost measures the delay with which a lease ends.
func (p *probes) lost(ctx context.Context, client *clientv3.Client) {
	limited, cancel := context.WithTimeout(ctx, 10*probeTimeout)
	defer cancel()
	late, err := func() (time.Duration, error) {
		lease, err := client.Grant(limited, int64(lostTTL/time.Second))
		if err != nil {
			return 0, err
		}
		ends := time.Now().Add(lostTTL)
		key := fmt.Sprintf("lost/%x", lease.ID)
		put, err := client.Put(limited, key, "", clientv3.WithLease(lease.ID))
		if err != nil {
			return time.Since(ends), ignore(err, rpctypes.ErrLeaseNotFound) // it has ended by now
		}
		for resp := range client.Watch(limited, key, clientv3.WithRev(put.Header.Revision+1)) {
			if err := resp.Err(); err != nil || len(resp.Events) > 0 {
				return time.Since(ends), err
			}
		}
		return 0, context.Cause(limited)
	}()
	p.add(ctx, lostLease, late, err)
}

func (p *probes) add(ctx context.Context, what string, took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.took[what] = append(p.took[what], took)
	case ctx.Err() == nil:
		p.errs = append(p.errs, fmt.Errorf("%s, after %v: %w", what, took, err))
	}
}

// stop sends no more requests, and waits for the answers.
func (p *probes) stop() {
	p.cancel()
	p.wg.Wait()
}

// next returns the durations of the requests that were answered since the last call, by kind, the slowest last,
// and the errors of those that failed.
func (p *probes) next() (took map[string][]time.Duration, errs []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took, errs = p.took, p.errs
	p.took, p.errs = map[string][]time.Duration{}, nil
	for _, all := range took {
		slices.Sort(all)
	}
	return took, errs
}

// summary formats the results.
func summary(took map[string][]time.Duration, errs []error) string {
	var out []string
	for _, what := range slices.Sorted(maps.Keys(took)) {
		all := took[what]
		at := func(share float64) time.Duration {
			return all[int(share*float64(len(all)-1))].Round(100 * time.Microsecond)
		}
		out = append(out, fmt.Sprintf("%s %d times: p50 %v, p99 %v, slowest %v", what, len(all), at(0.5), at(0.99), at(1)))
	}
	if len(errs) > 0 {
		out = append(out, fmt.Sprintf("%d failed, the first: %v", len(errs), errs[0]))
	}
	return strings.Join(out, "; ")
}

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
