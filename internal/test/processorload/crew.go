package processorload

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/processor"
)

// errKilled is what a killed process gets from its checkpoint.
var errKilled = errors.New("this process was killed")

// process is one process that may lead. Nothing that it does after it was killed takes effect.
type process struct {
	processor.Checkpoint
	killed atomic.Bool
	cancel context.CancelFunc
}

func (p *process) Claim(ctx context.Context, name string, token int64) (processor.Mark, error) {
	if p.killed.Load() {
		return processor.Mark{}, errKilled
	}
	return p.Checkpoint.Claim(ctx, name, token)
}

// Advance stores nothing if the process was killed before its work was done.
func (p *process) Advance(ctx context.Context, name string, at processor.Mark,
	work func(context.Context) (processor.Progress, error)) (processor.Mark, error) {
	return p.Checkpoint.Advance(ctx, name, at, func(ctx context.Context) (processor.Progress, error) {
		progress, err := work(ctx)
		if p.killed.Load() {
			return processor.Progress{Position: at.Position}, errKilled
		}
		return progress, err
	})
}

func (p *process) Report(ctx context.Context, name string, r processor.Report) (processor.Mark, error) {
	if p.killed.Load() {
		return processor.Mark{}, errKilled
	}
	return p.Checkpoint.Report(ctx, name, r)
}

// source has the numbers from 1 to last.
type source struct {
	processor.Signal
	last atomic.Int64
}

func (s *source) Read(_ context.Context, after processor.Position, limit int) ([]processor.Event[int], error) {
	n, _ := strconv.Atoi(string(after)) // "" is 0
	var events []processor.Event[int]
	for n++; n <= int(s.last.Load()) && len(events) < limit; n++ {
		events = append(events, processor.Event[int]{Position: position(n), Value: n})
	}
	return events, nil
}

func position(n int) processor.Position { return processor.Position(strconv.Itoa(n)) }

// crew is the processes, of which one leads.
type crew struct {
	world   World
	source  source
	seat    chan struct{} // has an element while no process leads
	tokens  atomic.Int64
	healed  sync.Map // events that no longer fail
	running sync.WaitGroup

	mu     sync.Mutex
	ends   []context.CancelFunc // of all processes
	leader *process
	evict  func() // takes the lead from the leader
}

func (c *crew) effects() ([]int, error) { return c.world.Effects() }
func (c *crew) undoes() bool            { return c.world.Undoes }
func (c *crew) lastEvent() int          { return int(c.source.last.Load()) }
func (c *crew) heal(event int)          { c.healed.Store(event, true) }

// lead is a leader lock. The lead can be taken from a process, which does not notice.
func (c *crew) lead(p *process) processor.LeaderLock {
	return processor.LockFunc(func(ctx context.Context, fn func(context.Context, int64) error) error {
		select {
		case <-c.seat:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		release := sync.OnceFunc(func() { c.seat <- struct{}{} })
		c.mu.Lock()
		c.leader, c.evict = p, release
		c.mu.Unlock()
		defer release()
		return fn(ctx, c.tokens.Add(1))
	})
}

// start starts a process.
func (c *crew) start() {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{Checkpoint: c.world.Open(), cancel: cancel}
	run, err := processor.New(processor.Config[int]{Name: c.world.Name, Source: &c.source, Checkpoint: p,
		LeaderLock: c.lead(p), BatchSize: batchSize, CheckInterval: 5 * time.Millisecond,
		PollInterval: 5 * time.Millisecond,
		Backoff:      processor.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond},
		Handler: func(ctx context.Context, e processor.Event[int]) error {
			if _, healed := c.healed.Load(e.Value); e.Value%poisonEvery == 0 && !healed {
				return processor.ErrPoison
			}
			return c.world.Apply(ctx, e.Value, &p.killed)
		}})
	if err != nil {
		panic(err) // a mistake in this package
	}
	c.mu.Lock()
	c.ends = append(c.ends, cancel)
	c.mu.Unlock()
	c.running.Go(func() { _ = run.Run(ctx) })
}

// stop ends all processes.
func (c *crew) stop() {
	c.mu.Lock()
	ends := c.ends
	c.mu.Unlock()
	for _, end := range ends {
		end()
	}
	c.running.Wait()
}

// kill ends the leader where it is, and starts another process. With only the lead taken, the former leader does not
// notice that another leads.
func (c *crew) kill(onlyLead bool) {
	c.mu.Lock()
	p, evict := c.leader, c.evict
	c.leader, c.evict = nil, nil
	c.mu.Unlock()
	if p == nil {
		return // between two leaders
	}
	if onlyLead {
		evict()
		return
	}
	p.killed.Store(true)
	evict()
	p.cancel()
	c.start()
}
