package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/member/inspect"
)

// Agreement follows whom each node of a fleet names as the leader, and takes the
// time at which the last one names whom it should. Nobody is asked in turns: one
// goroutine per node waits for the node's own signal that its leader changed, asks
// GetLeaderNode, and reads the clock. That is what a program does that follows the
// leader; it adds to a failover one wake-up a node, of the same process.
type Agreement struct {
	wg sync.WaitGroup

	mu        sync.Mutex
	followers map[*Node]*follower
	wanted    string
	missing   int // followers whose node names somebody else
	change    Change
	all       chan struct{} // closed when none is missing
}

// Change is one change of the leader as the followed nodes saw it.
type Change struct {
	// First and Last are when the first and the last node named the new leader.
	First, Last time.Time
}

type follower struct {
	names string
	stop  context.CancelFunc
	done  chan struct{}
}

// Follow follows nodes. End it with Close.
func Follow(nodes ...*Node) *Agreement {
	a := &Agreement{followers: map[*Node]*follower{}, all: make(chan struct{})}
	for _, n := range nodes {
		a.Join(n)
	}
	return a
}

// Join begins to follow n, which has started.
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

// Leave ends following n and returns when that has ended.
func (a *Agreement) Leave(n *Node) {
	a.mu.Lock()
	f := a.followers[n]
	delete(a.followers, n)
	a.mu.Unlock()
	f.stop()
	<-f.done
}

// Expect begins to wait until every node that is followed names the one at address,
// which no node may name yet.
func (a *Agreement) Expect(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wanted, a.missing, a.change, a.all = address, len(a.followers), Change{}, make(chan struct{})
}

// Await blocks until all of them do, or ctx ends.
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
		a.missing++ // it changed its mind: not yet agreed
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

// Close ends following and returns when all of it has ended.
func (a *Agreement) Close() {
	a.mu.Lock()
	for _, f := range a.followers {
		f.stop()
	}
	a.mu.Unlock()
	a.wg.Wait()
}
