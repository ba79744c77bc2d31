package state

import (
	"context"
	"fmt"
)

// Outcome is how a transaction ended.
type Outcome int

// The outcomes.
const (
	// Unknown: it may have been committed or not.
	Unknown Outcome = iota
	// Committed: what was saved in it is stored.
	Committed
	// RolledBack: it was not committed, for certain.
	RolledBack
)

// transaction is one whose end a State has to know.
type transaction struct{ members []func(*transaction, Outcome) }

type transactionKey struct{}

func transactionOf(ctx context.Context) *transaction {
	t, _ := ctx.Value(transactionKey{}).(*transaction)
	return t
}

// InTransaction is for stores whose saves can be part of a transaction. It returns a context for what is done
// in one, and a function that reports its end, to be called once. Until then a State that was saved with that
// context can be used with it alone. Then, if it was committed, what was saved counts; if it was rolled back,
// the State and its value are again what they were before; if that is not known, they are too, and the State is
// stale. end is a use of those States.
func InTransaction(ctx context.Context) (inside context.Context, end func(Outcome)) {
	t := &transaction{}
	return context.WithValue(ctx, transactionKey{}, t), func(o Outcome) {
		for _, ended := range t.members {
			ended(t, o)
		}
		t.members = nil
	}
}

// Member is a [State], of whatever message.
type Member interface {
	// Join makes the State part of the transaction whose context this is, before anything is saved in it.
	Join(ctx context.Context) error
}

// Join implements [Member]: if the transaction is rolled back, the value is set back also if nothing was saved.
// It returns the error of a State that cannot be used.
func (s *State[T]) Join(ctx context.Context) error {
	switch {
	case s.doing:
		return errInDo
	case transactionOf(ctx) == nil:
		return fmt.Errorf("%w: Join: this is no transaction's context", ErrUnavailable)
	}
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.enlist(ctx)
	return nil
}

// enlist has the State notified of the end of ctx's transaction, if it has one.
func (s *State[T]) enlist(ctx context.Context) {
	t := transactionOf(ctx)
	if t == nil || s.tx == t {
		return
	}
	s.tx, s.before = t, s.at
	t.members = append(t.members, s.ended)
}

func (s *State[T]) ended(t *transaction, o Outcome) {
	if s.tx != t {
		return // it was reloaded meanwhile
	}
	s.tx = nil
	if o == Committed {
		return
	}
	s.at = s.before
	s.Revert()
	if o == Unknown {
		s.spoil(fmt.Errorf("%w (%v: %w)", ErrStale, s.ref, ErrOutcomeUnknown))
	}
}
