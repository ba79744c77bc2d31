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
	// listTTL is for how long an answer from etcd serves others that ask the same.
	listTTL = time.Second
	// mostCached is how many different questions are remembered: a question comes from outside.
	mostCached = 64
	// mostReads is how many different questions etcd is asked at a time.
	mostReads = 8
	// readsPerSecond is how many different questions etcd is asked a second, after readsAtOnce: a client that asks for
	// another page of a list each time asks another question.
	readsPerSecond, readsAtOnce = 32, 64
)

// errTooOften refuses a question.
var errTooOften = errors.New("etcd is asked as often as this node does for HTTP: try again")

// cache answers a question from etcd once for all that ask it at a time, and for a while. Failures are remembered,
// too: an etcd that is in trouble is not asked more often. It is safe for concurrent use.
type cache struct {
	ttl    time.Duration
	flight singleflight.Group
	reads  chan struct{} // has room for those that read; nil: for all
	pace   *rate.Limiter // of reads; nil: none

	mu      sync.Mutex
	answers map[string]answer
}

type answer struct {
	body any
	err  error
	at   time.Time
}

// newCache makes a cache in which most questions are read at a time; 0: all.
func newCache(ttl time.Duration, most int) *cache {
	c := &cache{ttl: ttl, answers: map[string]answer{}}
	if most > 0 {
		c.reads = make(chan struct{}, most)
		c.pace = rate.NewLimiter(readsPerSecond, readsAtOnce)
	}
	return c
}

// get is the answer to a question, which read finds out within timeout. It blocks until there is one: what it waits
// for is not its own, so the end of ctx does not end it, and timeout does.
func (c *cache) get(ctx context.Context, question string, timeout time.Duration,
	read func(ctx context.Context) (any, error)) (any, error) {
	if a, ok := c.remembered(question, time.Now()); ok {
		return a.body, a.err
	}
	body, err, _ := c.flight.Do(question, func() (any, error) {
		if a, ok := c.remembered(question, time.Now()); ok { // since we looked
			return a.body, a.err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		body, err := c.read(ctx, read)
		c.remember(question, answer{body, err, time.Now()})
		return body, err
	})
	return body, err
}

func (c *cache) read(ctx context.Context, read func(ctx context.Context) (any, error)) (any, error) {
	if c.pace != nil && !c.pace.Allow() {
		return nil, errTooOften
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

func (c *cache) remembered(question string, now time.Time) (answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.answers[question]
	return a, ok && now.Sub(a.at) < c.ttl
}

// remember makes room by what is over. If there is none left, the next one asks anew.
func (c *cache) remember(question string, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for q, old := range c.answers {
		if a.at.Sub(old.at) >= c.ttl {
			delete(c.answers, q)
		}
	}
	if _, known := c.answers[question]; known || len(c.answers) < mostCached {
		c.answers[question] = a
	}
}
