package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrUnknown is returned if this process has no processor of the given name that can be paused.
var ErrUnknown = errors.New("there is no such processor in this process")

// Pauser is a processor that can be paused; every [Processor] is one.
type Pauser interface {
	// Pause stops the handling of events in this process until Resume. It blocks until the event that is being
	// handled is done; see [Processor.Pause].
	Pause(ctx context.Context) error
	// Resume ends a pause. It does not block.
	Resume()
}

// Pause stops the handling of events in this process until Resume. If this process leads, the processor keeps
// its lead and its claim on the checkpoint, so no other process handles events either. If it does not lead, it
// will be paused when it does. A pause concerns this process only and is kept in memory: it ends with the
// process, and the next leader continues.
//
// Pause blocks until the event that is being handled is done and stored, so a handler must not call it. If ctx
// ends first, Pause returns its cause, and the processor still pauses as soon as that event is done. Pausing a
// paused processor is not an error.
func (p *Processor[E]) Pause(ctx context.Context) error {
	if err := p.gate.shut(ctx); err != nil {
		return fmt.Errorf("processor %q is paused, but for an event that is still being handled: %w", p.cfg.Name, err)
	}
	return nil
}

// Resume ends a pause. It does not block. Resuming a processor that is not paused is not an error.
func (p *Processor[E]) Resume() { p.gate.open() }

// Pause pauses the processor of that name, as [Processor.Pause] does. It returns ErrUnknown if there is none.
func (g Group) Pause(ctx context.Context, name string) error {
	p, err := g.findPauser(name)
	if err != nil {
		return err
	}
	return p.Pause(ctx)
}

// Resume ends the pause of the processor of that name. It returns ErrUnknown if there is none.
func (g Group) Resume(name string) error {
	p, err := g.findPauser(name)
	if err == nil {
		p.Resume()
	}
	return err
}

func (g Group) findPauser(name string) (Pauser, error) {
	for _, r := range g {
		if p, ok := r.(Pauser); ok && r.Status().Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("processor %q: %w", name, ErrUnknown)
}

// pauseGate lets batches through unless it is shut. The zero value is open. It is safe for concurrent use.
type pauseGate struct {
	mu          sync.Mutex
	paused      bool
	batchInside bool          // a batch is inside
	changed     chan struct{} // closed at the next change, if a goroutine waits for one
}

// enter reports whether a batch may begin. If it may, the caller must call leave.
func (g *pauseGate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.batchInside = !g.paused
	return g.batchInside
}

func (g *pauseGate) leave() { g.changeState(func() { g.batchInside = false }) }

func (g *pauseGate) open() { g.changeState(func() { g.paused = false }) }

// shut blocks until no batch is inside.
func (g *pauseGate) shut(ctx context.Context) error {
	g.changeState(func() { g.paused = true })
	for {
		g.mu.Lock()
		inside, changed := g.batchInside, g.nextChange()
		g.mu.Unlock()
		if !inside {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// isShut reports whether no batch may begin. It also returns a channel that is closed when that may have
// changed.
func (g *pauseGate) isShut() (bool, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.paused, g.nextChange()
}

func (g *pauseGate) changeState(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do()
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// nextChange returns a channel that is closed at the next change. The lock must be held.
func (g *pauseGate) nextChange() <-chan struct{} {
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.changed
}

// awaitResume waits while the processor is paused, until ctx ends. Like awaitEvents, it claims the checkpoint at each
// CheckInterval, because it may have been rewound or claimed by another process.
func (t *term[E]) awaitResume(ctx context.Context, token int64) error {
	shut, changed := t.p.gate.isShut()
	if !shut {
		return nil
	}
	t.log.Info("processor paused", "token", token, "position", t.mark.Position)
	look := time.NewTicker(t.cfg.CheckInterval)
	defer look.Stop()
	for shut && ctx.Err() == nil {
		select {
		case <-changed:
		case <-ctx.Done():
		case <-look.C:
			if err := t.claimCheckpoint(ctx, token); err != nil {
				return err
			}
			t.p.report.setPosition(t.mark)
		}
		shut, changed = t.p.gate.isShut()
	}
	if ctx.Err() == nil {
		t.log.Info("processor resumed", "token", token, "position", t.mark.Position)
	}
	return nil
}
