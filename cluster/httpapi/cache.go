package httpapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

const (
	// listTTL is the time for which a response from etcd serves further requests for the same.
	listTTL = time.Second
	// maxCached limits the questions remembered, because clients choose them.
	maxCached = 64
	// maxReads limits the concurrent reads of etcd.
	maxReads = 8
	// readsPerSecond limits the reads of etcd per second, after a burst of readBurst. A client that requests
	// another page of a list each time asks another question.
	readsPerSecond, readBurst = 32, 64
)

// errReadLimit is returned when a read would exceed the rate limit.
var errReadLimit = errors.New("etcd, or the other nodes, are asked as often as this node does for HTTP: try again")

// cache reads the answer to a question from etcd once for all concurrent callers, and remembers it for a while.
// It remembers failures too, so that an etcd in trouble is not asked more often. It is safe for concurrent use.
type cache struct {
	ttl      time.Duration
	flight   singleflight.Group
	reads    chan struct{} // limits concurrent reads; nil: no limit
	readRate *rate.Limiter // limits the rate of reads; nil: no limit

	mu        sync.Mutex
	answers   map[string]cachedAnswer
	forgotten int // number of calls of forget; reads that began before one are not remembered
}

type cachedAnswer struct {
	body any
	err  error
	at   time.Time
}

// newCache returns a cache that limits concurrent reads to most; 0 means no limit.
func newCache(ttl time.Duration, most int) *cache {
	c := &cache{ttl: ttl, answers: map[string]cachedAnswer{}}
	if most > 0 {
		c.reads = make(chan struct{}, most)
		c.readRate = rate.NewLimiter(readsPerSecond, readBurst)
	}
	return c
}

// get returns the answer to a question, from read if necessary. It blocks until there is one. Callers share one
// read, so the end of ctx does not end it; timeout does.
func (c *cache) get(ctx context.Context, question string, timeout time.Duration,
	read func(ctx context.Context) (any, error)) (any, error) {
	if a, ok := c.lookUp(question, time.Now()); ok {
		return a.body, a.err
	}
	body, err, _ := c.flight.Do(question, func() (any, error) {
		if a, ok := c.lookUp(question, time.Now()); ok { // remembered since the check above
			return a.body, a.err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		c.mu.Lock()
		forgotten := c.forgotten
		c.mu.Unlock()
		body, err := c.limitedRead(ctx, read)
		c.store(question, cachedAnswer{body, err, time.Now()}, forgotten)
		return body, err
	})
	return body, err
}

func (c *cache) limitedRead(ctx context.Context, read func(ctx context.Context) (any, error)) (any, error) {
	if c.readRate != nil && !c.readRate.Allow() {
		return nil, errReadLimit
	}
	if c.reads != nil {
		select {
		case c.reads <- struct{}{}:
			defer func() { <-c.reads }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return read(ctx)
}

func (c *cache) lookUp(question string, now time.Time) (cachedAnswer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.answers[question]
	return a, ok && now.Sub(a.at) < c.ttl
}

// forget makes the next caller read the answer to a question anew, even if a read of it is in progress.
func (c *cache) forget(question string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.answers, question)
	c.forgotten++
	c.flight.Forget(question)
}

// store first removes outdated answers. If the cache is still full, or forget was called since the read began, the
// answer is not kept and the next caller reads.
func (c *cache) store(question string, a cachedAnswer, forgotten int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forgotten != forgotten {
		return
	}
	for q, old := range c.answers {
		if a.at.Sub(old.at) >= c.ttl {
			delete(c.answers, q)
		}
	}
	if _, known := c.answers[question]; known || len(c.answers) < maxCached {
		c.answers[question] = a
	}
}
