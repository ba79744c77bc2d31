package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// churnTimeout limits each request of a churn, which therefore continues soon after it was cut off from etcd.
const churnTimeout = time.Second

// ErrChurnConfig is returned for an invalid ChurnConfig.
var ErrChurnConfig = errors.New("bad configuration of a churn")

// ChurnConfig configures a Churn. The zero value has sensible defaults.
type ChurnConfig struct {
	// Prefix is the etcd prefix of the keys. It must end with a slash, lie outside the range of every cluster,
	// and contain no keys at the start. The default is "/goverse-churn/".
	Prefix string
	// Keys is the number of keys, which are written in turn. The default is 100.
	Keys int
	// ValueSize is the size of each value in bytes. The default is 1024.
	ValueSize int
	// WritesPerSecond limits the load. The default is 500, the maximum 1e6.
	WritesPerSecond int
	// CompactEvery is the interval at which the history up to the last write is compacted. The default is 100
	// ms.
	CompactEvery time.Duration
}

func (c ChurnConfig) withDefaults() ChurnConfig {
	c.Prefix = cmp.Or(c.Prefix, "/goverse-churn/")
	c.Keys = cmp.Or(c.Keys, 100)
	c.ValueSize = cmp.Or(c.ValueSize, 1024)
	c.WritesPerSecond = cmp.Or(c.WritesPerSecond, 500)
	c.CompactEvery = cmp.Or(c.CompactEvery, 100*time.Millisecond)
	return c
}

// Validate returns an error that matches ErrChurnConfig for the first invalid field, or nil.
func (c ChurnConfig) Validate() error {
	c = c.withDefaults()
	bad := func(field string, value any, remedy string) error {
		return fmt.Errorf("fault: %w: %s is %v: use %s", ErrChurnConfig, field, value, remedy)
	}
	switch {
	case len(c.Prefix) < 2 || !strings.HasSuffix(c.Prefix, "/"):
		return bad("Prefix", c.Prefix, "a prefix of its own that ends with a slash")
	case c.Keys < 0:
		return bad("Keys", c.Keys, "at least 1")
	case c.ValueSize < 0:
		return bad("ValueSize", c.ValueSize, "at least 1")
	case c.WritesPerSecond < 0 || c.WritesPerSecond > 1e6:
		return bad("WritesPerSecond", c.WritesPerSecond, "1 to 1000000")
	case c.CompactEvery < 0:
		return bad("CompactEvery", c.CompactEvery, "a positive duration")
	}
	return nil
}

// ChurnStats holds the counters of a churn.
type ChurnStats struct {
	// Writes and Compactions count the requests that succeeded, Failures those that failed. A failure does not
	// stop the churn.
	Writes, Compactions, Failures int
	// Compacted is the revision up to which history is gone, 0 before the first compaction.
	Compacted int64
	// LastError is the error of the last request that failed.
	LastError error
}

// Churn writes keys and compacts etcd's history until it is stopped. Its methods are safe for concurrent use.
type Churn struct {
	cfg    ChurnConfig
	client *clientv3.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	stats ChurnStats
}

// StartChurn starts a churn on the client, which the caller closes after Stop. It reads the prefix within ctx
// and fails if there are keys below it, or if etcd does not answer. ctx does not bound the churn itself. Later
// requests that fail are counted, and the churn continues. The error matches ErrChurnConfig or comes from etcd.
func StartChurn(ctx context.Context, client *clientv3.Client, cfg ChurnConfig) (*Churn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Churn{cfg: cfg.withDefaults(), client: client, done: make(chan struct{})}
	resp, err := client.Get(ctx, c.cfg.Prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return nil, fmt.Errorf("fault: look for keys below %s: %w", c.cfg.Prefix, err)
	}
	if resp.Count > 0 {
		return nil, fmt.Errorf("fault: %w: there are keys below %s, which Stop would delete: set Prefix to an empty place",
			ErrChurnConfig, c.cfg.Prefix)
	}
	// The caller's context bounds only this call; Stop ends the rest.
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go c.run(ctx)
	return c, nil
}

// Stats returns the counters so far.
func (c *Churn) Stats() ChurnStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Stop ends the churn and deletes its keys within ctx. It first waits for the request under way, at most a
// second if etcd does not answer. Call it again to retry a deletion that failed.
func (c *Churn) Stop(ctx context.Context) error {
	c.cancel()
	<-c.done
	if _, err := c.client.Delete(ctx, c.cfg.Prefix, clientv3.WithPrefix()); err != nil {
		return fmt.Errorf("fault: delete the churn's keys below %s: %w", c.cfg.Prefix, err)
	}
	return nil
}

func (c *Churn) run(ctx context.Context) {
	defer close(c.done)
	tick := time.NewTicker(time.Second / time.Duration(c.cfg.WritesPerSecond))
	defer tick.Stop()
	value := strings.Repeat("x", c.cfg.ValueSize)
	compacted := time.Now()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		revision, err := c.writeKey(ctx, i%c.cfg.Keys, value)
		if err == nil && time.Since(compacted) >= c.cfg.CompactEvery {
			compacted = time.Now()
			err = c.compactHistory(ctx, revision)
		}
		if err != nil {
			c.changeStats(func(s *ChurnStats) { s.Failures++; s.LastError = err })
		}
	}
}

func (c *Churn) writeKey(ctx context.Context, key int, value string) (revision int64, err error) {
	ctx, cancel := requestContext(ctx)
	defer cancel()
	resp, err := c.client.Put(ctx, fmt.Sprintf("%s%d", c.cfg.Prefix, key), value)
	if err != nil {
		return 0, err
	}
	c.changeStats(func(s *ChurnStats) { s.Writes++ })
	return resp.Header.Revision, nil
}

func (c *Churn) compactHistory(ctx context.Context, revision int64) error {
	ctx, cancel := requestContext(ctx)
	defer cancel()
	_, err := c.client.Compact(ctx, revision)
	switch {
	case errors.Is(err, rpctypes.ErrCompacted): // another program compacted further
		return nil
	case err != nil:
		return err
	}
	c.changeStats(func(s *ChurnStats) { s.Compactions++; s.Compacted = revision })
	return nil
}

// requestContext returns the context of one request. Stop does not cancel it, because etcd may execute a cancelled
// request later and write a key after Stop has deleted the keys.
func requestContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), churnTimeout)
}

func (c *Churn) changeStats(change func(*ChurnStats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.stats)
}
