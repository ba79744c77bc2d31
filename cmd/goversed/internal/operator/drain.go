package operator

import (
	"context"
	"errors"
	"time"

	"github.com/goverse/goverse/internal/member/request"
)

// The errors of a drain that began, and of one that could not be done.
var (
	ErrNotEmpty = request.ErrNotEmpty
	ErrNoAnswer = request.ErrNoAnswer
	ErrUndone   = request.ErrUndone
	ErrRefused  = request.ErrRefused
)

// Drained is a node that was drained, or may have shards again.
type Drained struct {
	Address     string  `json:"address"`
	Incarnation int64   `json:"incarnation"`
	Draining    bool    `json:"draining"`  // false after an undo
	Changed     bool    `json:"changed"`   // false if it was draining, or not, before
	Released    int     `json:"released"`  // shards that it had when it was asked
	Seconds     float64 `json:"seconds"`   // that it took
	Leader      bool    `json:"is_leader"` // which a drain does not alter
}

// Drain asks the node at address to give its shards up, and waits until the map names it
// no more and it has released all that was its. It calls show at the beginning, and
// whenever the number of shards that are left changes. The node keeps to it until Undrain
// or its end; it stays a member, and leads if it did.
//
// Refused, with ErrRefused, what would never end. When timeout has passed, or ctx ends, the
// error is ErrNotEmpty if the node goes on draining, or ErrNoAnswer. Others are
// shardview.ErrUnknownNode, shardview.ErrNoMap, request.ErrMemberGone, ErrUndone, and those
// of Read.
//
// Not promised: that a plan which was on its way already gives the node nothing. The next
// plan, at once, takes that away again.
func (o *Operator) Drain(ctx context.Context, timeout time.Duration, address string,
	show func(left, before int)) (Drained, error) {
	return o.drain(ctx, timeout, address, false, show)
}

// Undrain asks the node at address to take shards again, and waits until it says so: when
// the load is rebalanced it gets its share. That it was not drained is no error. Errors are
// those of Drain.
func (o *Operator) Undrain(ctx context.Context, timeout time.Duration, address string) (Drained, error) {
	return o.drain(ctx, timeout, address, true, func(int, int) {})
}

func (o *Operator) drain(ctx context.Context, timeout time.Duration, address string, undo bool,
	show func(left, before int)) (Drained, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m, end, err := o.begin(ctx)
	if err != nil {
		return Drained{}, err
	}
	defer end()
	if err := o.someone(ctx, m.Snapshot()); err != nil {
		return Drained{}, err
	}
	began := time.Now()
	d, err := request.AwaitDrain(ctx, o.client, m, address, undo, show)
	switch {
	case errors.Is(err, ErrNotEmpty), errors.Is(err, ErrNoAnswer):
		return Drained{}, err // it matches ctx's cause too, and yet it is not etcd that did not answer
	case err != nil:
		return Drained{}, o.explain(ctx, err)
	}
	return Drained{Address: d.Address, Incarnation: d.Incarnation, Draining: d.Draining, Changed: d.Changed,
		Released: d.Before, Seconds: time.Since(began).Seconds(), Leader: d.Leader}, nil
}
