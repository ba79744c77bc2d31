package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/leasequeue/effects"
)

// Errors of Resolve, besides once.ErrNotUnknown.
var (
	// ErrStillRunning is returned when the attempt still runs and will record its outcome itself.
	ErrStillRunning = errors.New("that attempt still runs")
	// ErrNotConfirmed is returned when the effect may have been resolved, or not.
	ErrNotConfirmed = errors.New("etcd did not confirm that it is resolved")
)

// Effect is the state of one effect in etcd.
type Effect struct {
	Name    string     `json:"name"`
	Key     string     `json:"key"`   // of its mark in etcd, in plain text for any name
	State   once.State `json:"state"` // running, unknown, done, failed or unreadable
	Attempt int        `json:"attempt"`
	Token   int64      `json:"token"` // of that attempt
	By      string     `json:"by"`    // owner of that attempt
	// At is the time of the last change, by the clock of the process that wrote it.
	At       time.Time `json:"at,omitzero"`
	Error    string    `json:"error,omitempty"`
	Resolved string    `json:"resolved_by,omitempty"`
	Size     int       `json:"result_bytes"`
	// Dropped reports that the result was too long to keep; it had Size bytes.
	Dropped bool   `json:"result_dropped,omitempty"`
	Result  []byte `json:"result,omitempty"` // base64 in JSON; not in lists
}

func (o *Operator) newEffect(s once.Standing) Effect {
	return Effect{Name: s.Name, Key: o.keys.EffectMark(s.Name), State: s.State, Attempt: s.Attempt, Token: s.Token,
		By: s.By,
		At: s.At, Error: s.Error, Resolved: s.Resolved, Size: max(len(s.Value), s.Dropped),
		Dropped: s.Dropped > 0, Result: s.Value}
}

// Effects lists effects in the order of their keys in etcd, without their results; with unknown, only those with an
// unknown outcome. It may take until ctx ends: timeout only limits one step, in which etcd must answer something.
// Effects returns the errors of Read.
func (o *Operator) Effects(ctx context.Context, timeout time.Duration, q ListQuery, unknown bool) (List[Effect],
	error) {
	return readList(ctx, o.stepFor(timeout), listSource[Effect]{needs: "READ" + o.effectPrefixes(),
		name: func(e Effect) string { return e.Name },
		read: func(ctx context.Context, after string, limit int) (items []Effect, more bool, err error) {
			found, more, err := effects.List(ctx, o.client, o.keys, once.Query{After: after, Limit: limit, Unknown: unknown})
			for _, s := range found {
				e := o.newEffect(s)
				e.Result = nil
				items = append(items, e)
			}
			return items, more, err
		}}, q)
}

// stepFor returns a function that executes one step of a list for at most the given time. Its errors are those of
// Read.
func (o *Operator) stepFor(timeout time.Duration) stepFunc {
	return func(ctx context.Context, needs string, list func(context.Context) error) (after string, err error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err = o.etcd.Ask(ctx, needs, func(ctx context.Context) (err error) {
			after, err = finishPart(ctx, list)
			return err
		})
		return after, err
	}
}

// Effect reads the state of one effect. It returns the errors of Read and effects.ReadState.
func (o *Operator) Effect(ctx context.Context, name string) (Effect, error) {
	s, err := o.readEffect(ctx, name)
	return o.newEffect(s), err
}

func (o *Operator) readEffect(ctx context.Context, name string) (once.Standing, error) {
	var s once.Standing
	err := o.etcd.Ask(ctx, "READ"+o.effectPrefixes(), func(ctx context.Context) (err error) {
		s, err = effects.ReadState(ctx, o.client, o.keys, name)
		return err
	})
	if errors.Is(err, once.ErrNoMark) {
		return s, fmt.Errorf("effect %s: %w; check --prefix; goversed effects shows those that are known",
			quoteIfUnclear(name), once.ErrNoMark)
	}
	return s, err
}

// Resolve records the outcome of the attempt with that token, like effects.Effects.Resolve. The outcome must
// have been unknown. It returns the effect as resolved. The outcome is kept for the same time as one that the
// effect's own processes recorded.
//
// An attempt that is still alive according to etcd is refused with ErrStillRunning, and an attempt with another token
// with once.ErrNotUnknown. Resolve also returns the errors of Effect, once.ErrValueTooLong, and, when timeout
// has passed, ErrNotConfirmed.
func (o *Operator) Resolve(ctx context.Context, timeout time.Duration, name string, token int64, tookPlace bool,
	result []byte) (Effect, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	looking, looked := context.WithTimeout(ctx, connectTimeout)
	defer looked()
	s, err := o.readEffect(looking, name)
	if err != nil {
		return Effect{}, err
	}
	if err := resolvable(s, token); err != nil {
		return Effect{}, err
	}
	err = o.recordOutcome(ctx, s, tookPlace, result)
	switch {
	case err != nil && ctx.Err() != nil:
		return Effect{}, fmt.Errorf("effect %s: %w: goversed effects show says whether it is (%w)", quoteIfUnclear(name),
			ErrNotConfirmed, err)
	case errors.Is(err, once.ErrNotUnknown):
		return Effect{}, fmt.Errorf("effect %s was resolved by another caller meanwhile: %w", quoteIfUnclear(name), err)
	case err != nil:
		return Effect{}, o.etcd.Explain(ctx, err, "READ and WRITE"+o.effectPrefixes())
	}
	// Return the state as written, because another process may run the effect again already.
	s.State, s.Value, s.Resolved, s.At = once.Failed, nil, requestOwner, time.Time{}
	if tookPlace {
		s.State, s.Value = once.Done, result
	}
	return o.newEffect(s), nil
}

// resolvable returns nil if the attempt with that token has an unknown outcome.
func resolvable(s once.Standing, token int64) error {
	attempt := fmt.Sprintf("effect %s, attempt %d by %s, token %d", quoteIfUnclear(s.Name), s.Attempt,
		quoteIfUnclear(s.By), s.Token)
	switch {
	case s.State == once.Unreadable:
		return fmt.Errorf("effect %s: its mark cannot be read: %s", quoteIfUnclear(s.Name), s.Error)
	case s.Token != token:
		return fmt.Errorf("%s, is %s: it is not the attempt with token %d; look at it anew: %w",
			attempt, s.State, token, once.ErrNotUnknown)
	case s.State == once.Running:
		return fmt.Errorf("%s: %w: its session lives, and it says itself what became of it; wait until it has ended",
			attempt, ErrStillRunning)
	case s.State != once.Unknown:
		return fmt.Errorf("%s, is %s: %w", attempt, s.State, once.ErrNotUnknown)
	}
	return nil
}

// recordOutcome records the outcome, on a session of its own.
func (o *Operator) recordOutcome(ctx context.Context, s once.Standing, tookPlace bool, result []byte) error {
	keeper, queues, err := o.newQueues(o.keys.EffectMark(s.Name), o.keys.Effects())
	if err != nil {
		return err
	}
	cfg := effects.Config{Queues: queues.Queues(o.keys.Effects()), Keys: o.keys, Owner: requestOwner}
	if s.Retention >= time.Minute { // versions before Retention was stored left it out
		cfg.Retention = s.Retention
	}
	all, err := effects.New(cfg)
	if err != nil {
		return err
	}
	return onSession(ctx, keeper, queues.Run, func() error {
		return all.Resolve(ctx, s.Name, s.Token, tookPlace, result)
	})
}

// effectPrefixes names the prefixes of effects, which lie outside the range that every node watches.
func (o *Operator) effectPrefixes() string {
	return " on the prefixes " + o.keys.EffectMarks() + " and " + o.keys.Effects().Root()
}
