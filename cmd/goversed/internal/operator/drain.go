package operator

import (
	"context"
	"errors"
	"time"

	"github.com/goverse/goverse/internal/member/request"
)

// Errors of a drain; see package request.
var (
	ErrNotEmpty = request.ErrNotEmpty
	ErrNoAnswer = request.ErrNoAnswer
	ErrUndone   = request.ErrUndone
	ErrRefused  = request.ErrRefused
)

// Drained is the result of a drain, or of its undoing.
type Drained struct {
	Address     string  `json:"address"`
	Incarnation int64   `json:"incarnation"`
	Draining    bool    `json:"draining"`  // false after an undo
	Changed     bool    `json:"changed"`   // false if there was nothing to change
	Released    int     `json:"released"`  // shards the node had at the request
	Seconds     float64 `json:"seconds"`   // that the drain took
	Leader      bool    `json:"is_leader"` // a drain does not change it
}

// Drain asks the node at address to give up its shards. It blocks until the map no longer names the node and
// the node has released all its shards. It calls show at the beginning, and whenever the number of remaining
// shards changes. The node drains until Undrain or its end. It remains a member, and leader if it was.
//
// A drain that could never end is refused with ErrRefused. When timeout has passed, or ctx ends, the error is
// ErrNotEmpty if the node continues to drain, and otherwise ErrNoAnswer. Other errors are
// shardview.ErrUnknownNode, shardview.ErrNoMap, request.ErrMemberGone, ErrUndone, and those of Read.
//
// Not promised: a plan that was being written at the request may still assign shards to the node. The next
// plan, which follows immediately, takes them away again.
func (o *Operator) Drain(ctx context.Context, timeout time.Duration, address string,
	show func(left, before int)) (Drained, error) {
	return o.requestDrain(ctx, timeout, address, false, show)
}

// Undrain asks the node at address to accept shards again, and blocks until it has confirmed. The node gets its
// share when the load is rebalanced. It is no error if the node was not drained. Undrain returns the errors of
// Drain.
func (o *Operator) Undrain(ctx context.Context, timeout time.Duration, address string) (Drained, error) {
	return o.requestDrain(ctx, timeout, address, true, func(int, int) {})
}

func (o *Operator) requestDrain(ctx context.Context, timeout time.Duration, address string, undo bool,
	show func(left, before int)) (Drained, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m, end, err := o.openMirror(ctx)
	if err != nil {
		return Drained{}, err
	}
	defer end()
	if err := o.requireNodes(ctx, m.Snapshot()); err != nil {
		return Drained{}, err
	}
	began := time.Now()
	d, err := request.AwaitDrain(ctx, o.client, m, address, undo, show)
	switch {
	case errors.Is(err, ErrNotEmpty), errors.Is(err, ErrNoAnswer):
		return Drained{}, err // it also matches ctx's cause, but etcd did answer
	case err != nil:
		return Drained{}, o.explain(ctx, err)
	}
	return Drained{Address: d.Address, Incarnation: d.Incarnation, Draining: d.Draining, Changed: d.Changed,
		Released: d.Before, Seconds: time.Since(began).Seconds(), Leader: d.Leader}, nil
}
