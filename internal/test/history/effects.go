package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/once"
)

// EffectRunner runs effects at most once, as *cluster.Effects does.
type EffectRunner interface {
	Once(ctx context.Context, name string, fn func(ctx context.Context, token int64) ([]byte, error)) (once.Result, error)
	Resolve(ctx context.Context, name string, token int64, tookPlace bool, value []byte) error
}

// Answer classifies the result of a call of Once.
type Answer string

// The answers.
const (
	AnswerNone    Answer = ""        // the call did not return
	AnswerDone    Answer = "done"    // the effect took place, now or before
	AnswerFailed  Answer = "failed"  // the function returned an error
	AnswerUnknown Answer = "unknown" // the outcome of an attempt is unknown
	AnswerNotRun  Answer = "not run" // another error: the function did not run
)

// Attempt is one call of Once.
type Attempt struct {
	Process string  `json:"proc"`
	ID      int64   `json:"id"` // unique in that process
	Node    string  `json:"node"`
	Name    string  `json:"name"`
	Call    Instant `json:"call"`
	Began   Instant `json:"began,omitempty"` // start of the function; 0 if it did not run
	Token   int64   `json:"token,omitempty"` // passed to the function
	Return  Instant `json:"return,omitempty"`
	Answer  Answer  `json:"answer,omitempty"`
	Of      int64   `json:"of,omitempty"`    // token of the attempt that the answer concerns
	Value   string  `json:"value,omitempty"` // the value answered
	Error   string  `json:"error,omitempty"`
}

func (a Attempt) String() string {
	s := fmt.Sprintf("%s (%s)", a.Node, a.Process)
	if a.Began != 0 {
		s += fmt.Sprintf(" ran by token %d,", a.Token)
	}
	switch a.Answer {
	case AnswerNone:
		return s + " got no answer"
	case AnswerDone, AnswerUnknown:
		s += fmt.Sprintf(" was answered that token %d is %s", a.Of, a.Answer)
	default:
		s += " was answered that it is " + string(a.Answer)
	}
	if a.Value != "" {
		s += fmt.Sprintf(", %q", a.Value)
	}
	if a.Error != "" {
		s += " (" + a.Error + ")"
	}
	return s
}

// resolveEvery is the pause between two attempts of Resolve.
const resolveEvery = 50 * time.Millisecond

// Effects runs effects as one node and records them. Each effect is an entry in a ledger. All methods are safe
// for concurrent use.
type Effects struct {
	rec     *Recorder
	node    string
	effects EffectRunner
	ledger  *Ledger
}

// Effects returns a recording Effects for one node.
func (r *Recorder) Effects(node string, effects EffectRunner, ledger *Ledger) *Effects {
	return &Effects{rec: r, node: node, effects: effects, ledger: ledger}
}

var errOnPurpose = errors.New("it fails before anything took place, on purpose")

// Once runs the named effect unless it took place before, and records the attempt. The effect's function
// ignores its context and takes the given time; then it enters the effect into the ledger, or, with fails set,
// returns an error instead. Once blocks as the runner's Once does.
func (e *Effects) Once(ctx context.Context, name string, takes time.Duration, fails bool) Attempt {
	a := Attempt{Process: e.rec.process, ID: e.rec.ids.Add(1), Node: e.node, Name: name, Call: Now()}
	value := fmt.Sprintf("%s#%d", a.Process, a.ID)
	e.rec.writeLines(recordLine{Attempt: &a})
	var unentered error
	r, err := e.effects.Once(ctx, name, func(_ context.Context, token int64) ([]byte, error) {
		a.Began, a.Token = Now(), token
		e.rec.writeLines(recordLine{Attempt: &a})
		<-time.After(takes)
		if fails {
			return nil, errOnPurpose
		}
		unentered = e.ledger.Append(LedgerEntry{Name: name, Token: token, Value: value, Process: a.Process})
		return []byte(value), unentered
	})
	a.Return = Now()
	unknown, isUnknown := errors.AsType[*once.UnknownError](err)
	switch {
	case err == nil:
		a.Answer, a.Of, a.Value = AnswerDone, r.Token, string(r.Value)
	case isUnknown:
		a.Answer, a.Of, a.Error = AnswerUnknown, unknown.Token, err.Error()
	case errors.Is(err, errOnPurpose), unentered != nil:
		a.Answer, a.Error = AnswerFailed, err.Error()
	default:
		a.Answer, a.Error = AnswerNotRun, err.Error()
	}
	e.rec.writeLines(recordLine{Attempt: &a})
	return a
}

// Resolve tries the effect until it is known to have taken place. It resolves an unknown outcome as a user
// must: it closes the ledger to that attempt and reads the outcome from it. It blocks until then or until ctx
// ends, and returns the last error in the latter case.
func (e *Effects) Resolve(ctx context.Context, name string, takes time.Duration) error {
	var kept error
	for ctx.Err() == nil {
		a := e.Once(ctx, name, takes, false)
		if a.Answer == AnswerDone {
			return nil
		}
		kept = errors.New(a.Error)
		if a.Answer == AnswerUnknown {
			kept = e.resolveUnknown(ctx, name, a.Of)
		}
		if kept != nil && !errors.Is(kept, once.ErrNotUnknown) {
			select {
			case <-time.After(resolveEvery):
			case <-ctx.Done():
			}
		}
	}
	return fmt.Errorf("effect %q is not resolved: %w", name, errors.Join(kept, context.Cause(ctx)))
}

func (e *Effects) resolveUnknown(ctx context.Context, name string, token int64) error {
	entered, took, err := e.ledger.CloseEffect(name, token)
	if err != nil {
		return err
	}
	return e.effects.Resolve(ctx, name, token, took, []byte(entered.Value))
}
