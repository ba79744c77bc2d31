package cluster

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/internal/member/request"
	"github.com/goverse/goverse/internal/sharding/shardview"
	"github.com/goverse/goverse/internal/wait"
)

// Errors returned by Drain and Undrain. Test for them with errors.Is.
var (
	// ErrUnknownNode is returned when no node is registered at the address.
	ErrUnknownNode = shardview.ErrUnknownNode
	// ErrNoShardMap is returned when the shards have not been assigned for the first time yet.
	ErrNoShardMap = shardview.ErrNoMap
	// ErrDrainRefused is returned for a drain that would never end.
	ErrDrainRefused = request.ErrRefused
	// ErrMemberGone is returned when the node left, or registered anew, during the call.
	ErrMemberGone = request.ErrMemberGone
	// ErrNotEmpty is returned when the node still has shards. It goes on draining.
	ErrNotEmpty = request.ErrNotEmpty
	// ErrNoAnswer is returned when the node did not confirm the request. The request is withdrawn.
	ErrNoAnswer = request.ErrNoAnswer
	// ErrUndone is returned by Drain when another request ended the drain.
	ErrUndone = request.ErrUndone
)

// Drained describes the progress of a drain, or a drain that was undone.
type Drained struct {
	Address     string `json:"address"`
	Incarnation int64  `json:"incarnation"`
	Draining    bool   `json:"draining"` // false after Undrain
	Changed     bool   `json:"changed"`  // false if the node was already draining, or for Undrain, already was not
	Before      int    `json:"before"`   // shards that it had at the time of the request; 0 for Undrain
	Left        int    `json:"left"`     // shards that it has not released yet
	Leader      bool   `json:"leader"`   // the node leads; a drain does not change that
}

// Drain asks the node at address to give up its shards, and waits until the shard map no longer names it and it
// has released all of them. Any node may drain any other, or itself. The node keeps draining until Undrain or its
// end. It stays a member, and stays the leader if it was.
//
// Drain blocks until the drain is done, ctx ends, or this node stops. In the last two cases the error is
// ErrNotEmpty if the node goes on draining, with its progress in Drained, and ErrNoAnswer otherwise. It also
// matches ctx's cause or ErrStopped. Drain returns ErrDrainRefused for a drain that would never end. Other errors
// are ErrUnknownNode, ErrNoShardMap, ErrMemberGone, ErrUndone, ErrNotStarted, ErrStopped, ctx's cause alone, and
// etcd's.
func (c *Cluster) Drain(ctx context.Context, address string) (Drained, error) {
	return c.setDraining(ctx, address, false)
}

// Undrain asks the node at address to take shards again, and waits until it has confirmed that. The node gets its
// share at the next rebalance. Undrain of a node that is not draining is not an error. It blocks, and fails, like
// Drain.
func (c *Cluster) Undrain(ctx context.Context, address string) (Drained, error) {
	return c.setDraining(ctx, address, true)
}

func (c *Cluster) setDraining(ctx context.Context, address string, undo bool) (Drained, error) {
	p, err := c.runningParts()
	if err != nil {
		return Drained{}, err
	}
	left, ok := p.tracked.Join() // makes a stop leave time to withdraw the request
	if !ok {
		return Drained{}, ErrStopped
	}
	defer left()
	// once the group has ended the mirror is not updated and no session opens
	ctx, stop := wait.MergeContexts(ctx, p.tracked.Context())
	defer stop()
	if _, err := p.Keeper.Wait(ctx, nil); err != nil { // without a session etcd is not answering
		return Drained{}, fmt.Errorf("wait for a session with etcd: %w", err)
	}
	d, err := request.AwaitDrain(ctx, p.client, p.Mirror, address, undo, func(int, int) {})
	return Drained(d), err
}
