package elector

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("the store is away")

// link connects one elector and the store. It can be cut, and can lose or delay messages. It hides that the
// store can be watched.
type link struct {
	LeaseStore
	mu  sync.Mutex
	cut bool
	// for the next request of a kind
	rules map[action]func(ctx context.Context, ask func(context.Context) (Lease, error)) (Lease, error)
	asked int
}

func newLink(store LeaseStore) *link {
	return &link{LeaseStore: store, rules: map[action]func(context.Context, func(context.Context) (Lease, error)) (Lease,
		error){}}
}

// cutOff makes every request hang until its context ends; cutOff(false) reverts that.
func (l *link) cutOff(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

func (l *link) requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// loseAnswer lets the next request of a kind be carried out and loses its answer.
func (l *link) loseAnswer(do action) {
	l.rule(do, func(ctx context.Context, ask func(context.Context) (Lease, error)) (Lease, error) {
		_, _ = ask(ctx)
		<-ctx.Done()
		return Lease{}, context.Cause(ctx)
	})
}

// held is a request that the store has not received yet. Its caller waits.
type held struct {
	caught chan struct{}
	ask    func(context.Context) (Lease, error)
}

func (h *held) wait() { <-h.caught }

// carryOut delivers the request to the store.
func (h *held) carryOut() (Lease, error) {
	h.wait()
	return h.ask(context.Background())
}

// hold catches the next request of a kind.
func (l *link) hold(do action) *held {
	h := &held{caught: make(chan struct{})}
	l.rule(do, func(ctx context.Context, ask func(context.Context) (Lease, error)) (Lease, error) {
		h.ask = ask
		close(h.caught)
		<-ctx.Done()
		return Lease{}, context.Cause(ctx)
	})
	return h
}

// slow delays the next request of a kind before it is carried out.
func (l *link) slow(do action, d time.Duration) {
	l.rule(do, func(ctx context.Context, ask func(context.Context) (Lease, error)) (Lease, error) {
		<-time.After(d)
		return ask(ctx)
	})
}

// delay carries the next request of a kind out at once and delays its answer.
func (l *link) delay(do action, d time.Duration) {
	l.rule(do, func(ctx context.Context, ask func(context.Context) (Lease, error)) (Lease, error) {
		lease, err := ask(ctx)
		<-time.After(d)
		return lease, err
	})
}

func (l *link) rule(do action, rule func(context.Context, func(context.Context) (Lease, error)) (Lease, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules[do] = rule
}

func (l *link) pass(ctx context.Context, do action, ask func(context.Context) (Lease, error)) (Lease, error) {
	l.mu.Lock()
	l.asked++
	cut, rule := l.cut, l.rules[do]
	if !cut {
		delete(l.rules, do)
	}
	l.mu.Unlock()
	switch {
	case cut:
		<-ctx.Done()
		return Lease{}, errAway
	case rule != nil:
		return rule(ctx, ask)
	}
	return ask(ctx)
}

func (l *link) GetLease(ctx context.Context) (Lease, error) {
	return l.pass(ctx, doGet, l.LeaseStore.GetLease)
}

func (l *link) CreateLease(ctx context.Context, lease Lease) (Lease, error) {
	return l.pass(ctx, doCreate, func(ctx context.Context) (Lease, error) { return l.LeaseStore.CreateLease(ctx, lease) })
}

func (l *link) UpdateLease(ctx context.Context, lease Lease) (Lease, error) {
	return l.pass(ctx, doUpdate, func(ctx context.Context) (Lease, error) { return l.LeaseStore.UpdateLease(ctx, lease) })
}

// candidate is a running elector and a record of its events.
type candidate struct {
	*Elector
	t *testing.T
	*link
	stop  context.CancelFunc
	done  chan error // receives the result of Run
	later bool       // the test calls run

	mu       sync.Mutex
	events   []string      // of terms
	notified []string      // the reported leaders
	inside   int           // number of callbacks of terms that run
	work     chan struct{} // if not nil, OnStartedLeading returns when it is closed, not before
	finish   func()        // closes it
}

func (c *candidate) note(event string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, event)
}

// happened returns the events since its last call.
func (c *candidate) happened() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	events := c.events
	c.events = nil
	return events
}

// leaders returns the leaders reported since its last call.
func (c *candidate) leaders() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	notified := c.notified
	c.notified = nil
	return notified
}

// stand starts a candidate with a lease of 10 s and a RetryPeriod of 2 s. It is stopped with the test. stand
// checks that its callbacks run in order.
func stand(t *testing.T, id string, store LeaseStore, change ...func(*candidate, *Config)) *candidate {
	t.Helper()
	c := &candidate{t: t, link: newLink(store), stop: func() {}, finish: func() {}}
	cfg := Config{LeaseStore: c.link, CandidateID: id, LeaseDuration: 10 * time.Second,
		RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		OnStartedLeading: func(ctx context.Context) {
			c.enter(1)
			c.note("starts")
			assert.Positive(t, TokenFrom(ctx))
			if token := c.Token(); token != 0 {
				assert.Equal(t, token, TokenFrom(ctx))
			}
			<-ctx.Done()
			assert.False(t, c.IsLeader())
			if c.work != nil {
				<-c.work
			}
			c.note("ends: " + context.Cause(ctx).Error())
			c.enter(-1)
		},
		OnStoppedLeading: func() {
			assert.False(t, c.IsLeader())
			c.note("stopped")
		},
		OnNewLeader: func(who string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.notified = append(c.notified, who)
		},
	}
	for _, f := range change {
		f(c, &cfg)
	}
	var err error
	c.Elector, err = New(cfg)
	require.NoError(t, err)
	if !c.later {
		c.run()
	}
	t.Cleanup(func() {
		c.finish()
		c.stop()
		<-c.done
	})
	return c
}

// lingers makes the callbacks of a candidate's terms run until finish is called.
func lingers(c *candidate, _ *Config) {
	c.work = make(chan struct{})
	c.finish = sync.OnceFunc(func() { close(c.work) })
}

func (c *candidate) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	c.stop, c.done = cancel, done
	go func() {
		done <- c.Run(ctx)
		close(done)
	}()
}

func (c *candidate) enter(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside += n
	assert.LessOrEqual(c.t, c.inside, 1, "two terms at once in one process")
}

// crash stops a candidate like a killed process: the store receives nothing more from it.
func (c *candidate) crash() {
	c.cutOff(true)
	c.stop()
}

// pass lets fake time pass.
func pass(d time.Duration) { <-time.After(d) }
