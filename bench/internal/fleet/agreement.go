package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/member/inspect"
)

// Agreement follows each node of a fleet and records the time at which the last one names the expected leader.
// It does not poll: one goroutine per node waits for the node's own signal that its leader changed, calls
// GetLeaderNode, and reads the clock. A program that follows the leader does the same. This adds one wake-up
// per node, in the same process, to a failover.
type Agreement struct {
	wg sync.WaitGroup

	mu        sync.Mutex
	followers map[*Node]*follower
	wanted    string
	missing   int // followers that name another leader
	change    Change
	all       chan struct{} // closed when missing is 0
}

// Change is one change of the leader as seen by the followed nodes.
type Change struct {
	// First and Last are the times at which the first and the last node named the new leader.
	First, Last time.Time
}

type follower struct {
	names string
	stop  context.CancelFunc
	done  chan struct{}
}

// Follow follows the nodes. Close ends it.
func Follow(nodes ...*Node) *Agreement {
	a := &Agreement{followers: map[*Node]*follower{}, all: make(chan struct{})}
	for _, n := range nodes {
		a.Join(n)
	}
	return a
}

// Join begins to follow n, which must have started.
func (a *Agreement) Join(n *Node) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{stop: cancel, done: make(chan struct{})}
	a.mu.Lock()
	a.followers[n] = f
	a.mu.Unlock()
	manager := n.GetConsensusManager()
	sub := inspect.Election(n.Cluster).Subscribe()
	a.wg.Go(func() {
		defer close(f.done)
		defer sub.Close()
		for {
			select {
			case <-sub.C:
				names := manager.GetLeaderNode()
				a.saw(f, names, time.Now())
			case <-ctx.Done():
				return
			}
		}
	})
}

// Leave ends following n and waits for its goroutine.
func (a *Agreement) Leave(n *Node) {
	a.mu.Lock()
	f := a.followers[n]
	delete(a.followers, n)
	a.mu.Unlock()
	f.stop()
	<-f.done
}

// Expect starts a new expectation: that every followed node names the leader at address, which none may name
// yet.
func (a *Agreement) Expect(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wanted, a.missing, a.change, a.all = address, len(a.followers), Change{}, make(chan struct{})
}

// Await blocks until the expectation is met or ctx ends.
func (a *Agreement) Await(ctx context.Context) (Change, error) {
	select {
	case <-a.all:
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.change, nil
	case <-ctx.Done():
		return Change{}, ctx.Err()
	}
}

func (a *Agreement) saw(f *follower, names string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := f.names
	f.names = names
	switch {
	case a.wanted == "" || before == names || a.missing == 0:
	case before == a.wanted:
		a.missing++ // it changed again: not agreed yet
	case names == a.wanted:
		if a.missing--; a.change.First.IsZero() {
			a.change.First = at
		}
		if a.missing == 0 {
			a.change.Last = at
			close(a.all)
		}
	}
}

// Close ends following all nodes and waits for the goroutines.
func (a *Agreement) Close() {
	a.mu.Lock()
	for _, f := range a.followers {
		f.stop()
	}
	a.mu.Unlock()
	a.wg.Wait()
}
