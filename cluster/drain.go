package cluster

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/internal/member/request"
	"github.com/goverse/goverse/internal/sharding/shardview"
	"github.com/goverse/goverse/internal/wait"
)

// The errors of Drain and Undrain, to test for with errors.Is.
var (
	// ErrUnknownNode: no node is registered at that address.
	ErrUnknownNode = shardview.ErrUnknownNode
	// ErrNoShardMap: no node has dealt the shards out yet.
	ErrNoShardMap = shardview.ErrNoMap
	// ErrDrainRefused: what is asked for would never end.
	ErrDrainRefused = request.ErrRefused
	// ErrMemberGone: the node left, or registered anew, meanwhile.
	ErrMemberGone = request.ErrMemberGone
	// ErrNotEmpty: the node has shards still. It goes on draining.
	ErrNotEmpty = request.ErrNotEmpty
	// ErrNoAnswer: the node did not say that it does what was asked. No request is left behind.
	ErrNoAnswer = request.ErrNoAnswer
	// ErrUndone: somebody else ended the drain.
	ErrUndone = request.ErrUndone
)

// Drained is how far a drain has come, or one that was undone.
type Drained struct {
	Address     string
	Incarnation int64
	Draining    bool // false after an undo
	Changed     bool // false if it was draining, or not, before
	Before      int  // shards that it had when it was asked; 0 for an undo
	Left        int  // what it has not released yet
	Leader      bool // it leads, which a drain does not alter
}

// Drain asks the node at address to give its shards up, and waits until it has: the map names it no more and it has
// released all that was its. Any node may ask for any. The node keeps to it until Undrain or its end; it stays a
// member, and leads if it did.
//
// It blocks until that is done, or ctx ends or this node stops: the error is then ErrNotEmpty if the node at address
// goes on draining, and Drained says how far it has come, or else ErrNoAnswer; and it matches ctx's cause, or
// ErrStopped. Refused, with ErrDrainRefused, is what would never end. Others are ErrUnknownNode, ErrNoShardMap,
// ErrMemberGone, ErrUndone, ErrNotStarted, ErrStopped and ctx's cause alone, and etcd's.
func (c *Cluster) Drain(ctx context.Context, address string) (Drained, error) {
	return c.drain(ctx, address, false)
}

// Undrain asks the node at address to take shards again, and waits until it says so: when the load is rebalanced it
// gets its share. That it was not drained is no error. It blocks, and fails, as Drain does.
func (c *Cluster) Undrain(ctx context.Context, address string) (Drained, error) {
	return c.drain(ctx, address, true)
}

func (c *Cluster) drain(ctx context.Context, address string, undo bool) (Drained, error) {
	p, err := c.running()
	if err != nil {
		return Drained{}, err
	}
	left, ok := p.joinRest() // a stop leaves time to withdraw the request
	if !ok {
		return Drained{}, ErrStopped
	}
	defer left()
	ctx, stop := wait.Within(ctx, p.restCtx) // the mirror shows nothing more, and no session comes, once that has ended
	defer stop()
	if _, err := p.keeper.Wait(ctx, nil); err != nil { // while there is none etcd does not answer
		return Drained{}, fmt.Errorf("wait for a session with etcd: %w", err)
	}
	d, err := request.AwaitDrain(ctx, p.client, p.mirror, address, undo, func(int, int) {})
	return Drained(d), err
}
