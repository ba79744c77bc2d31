package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/request"
	"github.com/goverse/goverse/internal/state"
)

// The errors of a drain that began.
var (
	// ErrNotEmpty: the node has shards still. It goes on draining.
	ErrNotEmpty = errors.New("the node is not empty yet")
	// ErrNoAnswer: the node did not say that it does what was asked.
	ErrNoAnswer = errors.New("the node did not answer")
	// ErrUndone: somebody else ended the drain.
	ErrUndone = errors.New("somebody ended the drain meanwhile")
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
	lease, m, end, err := o.begin(ctx, timeout)
	if err != nil {
		return Drained{}, err
	}
	defer end()
	w, err := newDrainRequest(m.Snapshot(), address, undo)
	if err != nil {
		return Drained{}, err
	}
	began := time.Now()
	withdraw, err := request.Drain(ctx, o.client, o.keys, lease, w.asked, undo)
	if err != nil {
		return Drained{}, o.explain(ctx, err)
	}
	defer withdraw()
	show(w.left, w.before)
	sub := m.Subscribe(nil)
	defer sub.Close()
	for {
		select {
		case <-sub.C:
		case <-ctx.Done():
			return Drained{}, w.unfinished()
		}
		s, last := m.Snapshot(), w.left
		done, err := w.look(s)
		if err != nil {
			return Drained{}, err
		}
		if w.left != last {
			show(w.left, w.before)
		}
		if done {
			return w.outcome(s, time.Since(began)), nil
		}
	}
}

func (w *drainRequest) outcome(s *state.Snapshot, took time.Duration) Drained {
	l := s.Leader()
	d := Drained{Address: w.asked.Address, Incarnation: w.asked.Incarnation, Draining: !w.undo,
		Changed: w.asked.Draining == w.undo,
		Seconds: took.Seconds(), Leader: l.Member && l.Lease == w.asked.Lease}
	if !w.undo {
		d.Released = w.before
	}
	return d
}

// unfinished is the error when the time is up.
func (w *drainRequest) unfinished() error {
	if !w.answered {
		return fmt.Errorf("%s: %w: it does not reach etcd, or is older than this command; no request is left behind",
			w.asked.Address, ErrNoAnswer)
	}
	why := "goversed shards shows whom they wait for"
	if w.stuck {
		why = "no other node can take them any more: start one"
	}
	return fmt.Errorf("%w: %s has %d of %d shards and goes on draining; %s; goversed drain --undo %s ends it",
		ErrNotEmpty, w.asked.Address, w.left, w.before, why, w.asked.Address)
}
