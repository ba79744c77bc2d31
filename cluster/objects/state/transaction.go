package state

import (
	"context"
	"fmt"
)

// Outcome is the outcome of a transaction.
type Outcome int

// The outcomes.
const (
	// Unknown means that the transaction may have been committed or not.
	Unknown Outcome = iota
	// Committed means that the saves in the transaction are stored.
	Committed
	// RolledBack means that the transaction was certainly not committed.
	RolledBack
)

// transaction holds the States that must be notified when a transaction ends.
type transaction struct{ members []func(*transaction, Outcome) }

type transactionKey struct{}

func transactionOf(ctx context.Context) *transaction {
	t, _ := ctx.Value(transactionKey{}).(*transaction)
	return t
}

// InTransaction is for stores that can save as part of a transaction. It returns a context for the work in the
// transaction, and a function to call once, when the transaction has ended. Until then, a State that was saved
// with that context can be used with that context only.
//
// After a commit the saves count. After a rollback the State and its value are again as they were before the
// transaction. An unknown outcome has the same effect and also makes the State stale. Calling end uses those
// States, so only one goroutine at a time may do so.
func InTransaction(ctx context.Context) (inside context.Context, end func(Outcome)) {
	t := &transaction{}
	return context.WithValue(ctx, transactionKey{}, t), func(o Outcome) {
		for _, ended := range t.members {
			ended(t, o)
		}
		t.members = nil
	}
}

// Member is a [State] of any message type.
type Member interface {
	// Join makes the State part of the transaction of ctx before anything is saved in it.
	Join(ctx context.Context) error
}

// Join implements [Member]. If the transaction is rolled back, the value is reset even if nothing was saved.
// Join returns an error if the State cannot be used.
func (s *State[T]) Join(ctx context.Context) error {
	switch {
	case s.inDo:
		return errInDo
	case transactionOf(ctx) == nil:
		return fmt.Errorf("%w: Join: this is no transaction's context", ErrUnavailable)
	}
	if err := s.checkUsable(ctx); err != nil {
		return err
	}
	s.joinTransaction(ctx)
	return nil
}

// joinTransaction registers the State with ctx's transaction, if there is one, to be notified of its end.
func (s *State[T]) joinTransaction(ctx context.Context) {
	t := transactionOf(ctx)
	if t == nil || s.tx == t {
		return
	}
	s.tx, s.beforeTx = t, s.stored
	t.members = append(t.members, s.transactionEnded)
}

func (s *State[T]) transactionEnded(t *transaction, o Outcome) {
	if s.tx != t {
		return // it was reloaded meanwhile
	}
	s.tx = nil
	if o == Committed {
		return
	}
	s.stored = s.beforeTx
	s.Revert()
	if o == Unknown {
		s.markStale(fmt.Errorf("%w (%v: %w)", ErrStale, s.ref, ErrOutcomeUnknown))
	}
}
