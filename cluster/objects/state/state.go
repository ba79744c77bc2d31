package state

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Holder is an activation of an object, as *objects.Object is: what it is called, and the epoch under which
// this node owns its shard.
type Holder interface {
	Service() string
	Key() string
	Epoch() int64
}

// State is the state of one activation. It and all of its methods, and Do, are for one goroutine at a time:
// that of the object's turn. In a service whose calls run concurrently, hold a lock of your own for as long as
// you use the State or its value. It keeps the value twice, as a message and serialized.
type State[T proto.Message] struct {
	store   Store
	ref     Ref
	epoch   int64
	value   T
	initial []byte // the value of an object without a state
	at      mark

	doing   bool // fn of Do runs
	deleted bool // by fn

	tx     *transaction // not ended yet
	before mark         // that transaction

	err  error  // why it is stale
	drop func() // what follows from that
}

// mark is what is stored, as far as the State knows.
type mark struct {
	version int64
	exists  bool
	value   []byte
}

// Load claims the object for its epoch and reads its state into value, or leaves value as it is if there is
// none; from then on saves by former owners, and with former States of this object, are refused. Call it when
// the object is activated, and once: each Load makes the States of before unusable.
//
// When the State becomes stale (see [State.Err]), the activation is dropped after the turn: if o has a method
// Deactivate, as *objects.Object has, it is called. To Reload instead, hide it: struct{ state.Holder }{o}.
//
// value belongs to the State from then on. Errors match ErrFenced (an owner with a larger epoch has loaded the
// object), ErrUnavailable, ErrBadRef or ErrUnreadable. It blocks as the store does.
func Load[T proto.Message](ctx context.Context, store Store, o Holder, value T) (*State[T], error) {
	s := &State[T]{store: store, ref: Ref{o.Service(), o.Key()}, epoch: o.Epoch(), value: value, drop: func() {}}
	if d, ok := o.(interface{ Deactivate() }); ok {
		s.drop = d.Deactivate
	}
	if err := s.ref.Validate(); err != nil {
		return nil, err
	}
	var err error
	if s.initial, err = (proto.MarshalOptions{AllowPartial: true}).Marshal(value); err != nil {
		return nil, fmt.Errorf("%w: the default value of %v: %w", ErrUnreadable, s.ref, err)
	}
	s.at.value = s.initial
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *State[T]) load(ctx context.Context) error {
	r, err := s.store.Load(ctx, s.ref, s.epoch)
	if err != nil {
		return readError("load the state", s.ref, err)
	}
	at := mark{r.Version, r.Found, r.Value}
	if !r.Found {
		at.value = s.initial
	}
	if err := fill(s.value, at.value); err != nil {
		s.Revert()
		return fmt.Errorf("%w: the stored state of %v is no %s: %w", ErrUnreadable, s.ref,
			s.value.ProtoReflect().Descriptor().FullName(), err)
	}
	s.at, s.tx, s.err = at, nil, nil
	return nil
}

// fill replaces all that a message has. A default may lack fields that proto2 requires.
func fill(m proto.Message, b []byte) error {
	return proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(b, m)
}

// Value is the state: always the same message, to read and to change. What was changed counts once Save, or
// Do, has returned nil. Where it is set back (see Revert) its fields are replaced, so keep no pointers to
// messages, lists or maps inside it from turn to turn.
func (s *State[T]) Value() T { return s.value }

// Exists reports whether there is a stored state.
func (s *State[T]) Exists() bool { return s.at.exists }

// Ref is the object's name.
func (s *State[T]) Ref() Ref { return s.ref }

// Epoch is that under which the State was loaded.
func (s *State[T]) Epoch() int64 { return s.epoch }

// Err is nil while the value is the stored one as far as can be known, and the State can be saved. After a
// save that was refused, or whose outcome is not known, it is an error that matches ErrStale and that save's:
// the object is to be deactivated, which Load sees to, or Reload to be called.
func (s *State[T]) Err() error { return s.err }

// Revert sets the value back to what was stored last, or to its default if nothing is: for a turn that fails
// before it saves. After an error of Save, Delete or Do that has happened already. It asks the store nothing.
func (s *State[T]) Revert() {
	if err := fill(s.value, s.at.value); err != nil {
		panic(err) // it was a message when it was stored
	}
}

// Reload does what Load did, in place: it makes a State that is stale usable again, and shows what was stored.
// On an error the State is stale; ErrFenced then means that this activation is over. It is refused within a
// transaction, which might undo it.
func (s *State[T]) Reload(ctx context.Context) error {
	switch {
	case s.doing:
		return errInDo
	case transactionOf(ctx) != nil:
		return fmt.Errorf("%w: Reload cannot be part of a transaction: call it after that", ErrStale)
	}
	err := s.load(ctx)
	if err != nil {
		s.spoil(fmt.Errorf("%w (%w)", ErrStale, err))
	}
	return err
}

// spoil makes the State stale.
func (s *State[T]) spoil(err error) {
	s.err = err
	s.drop()
}

// Save stores the value, in one write. After an error the value is what was stored last, and the State may be
// stale: see the package comment. Any other State of this object is refused from then on. It blocks as the
// store does.
func (s *State[T]) Save(ctx context.Context) error {
	if s.doing {
		return errInDo
	}
	return s.write(ctx, Write{})
}

// Delete removes the stored state, and sets the value to its default, as for an object that never had one.
// The replies to its calls are kept for as long as others. Called by fn of Do, it takes effect when fn has
// returned nil, with the reply; what fn changes after that is not stored. Errors are those of Save.
func (s *State[T]) Delete(ctx context.Context) error {
	if s.doing {
		s.deleted = true
		return nil
	}
	return s.write(ctx, Write{Delete: true})
}

// usable reports whether the State may be used with ctx.
func (s *State[T]) usable(ctx context.Context) error {
	switch {
	case s.err != nil:
		return s.err
	case s.tx != nil && s.tx != transactionOf(ctx):
		return fmt.Errorf("%w: %v was saved in a transaction whose end was not reported", ErrStale, s.ref)
	}
	return nil
}

// write stores the value, or what else w says, and keeps account of what is stored.
func (s *State[T]) write(ctx context.Context, w Write) error {
	if err := s.prepare(ctx, &w); err != nil {
		s.Revert()
		return err
	}
	version, err := s.store.Save(ctx, s.ref, w)
	if err != nil {
		err = saveError(s.ref, err)
		if of(err, ErrFenced, ErrConflict, ErrOutcomeUnknown) {
			s.spoil(fmt.Errorf("%w (%w)", ErrStale, err))
		}
		s.Revert()
		return err
	}
	s.enlist(ctx)
	s.at = mark{version, !w.Delete, w.Value}
	if w.Delete {
		s.at.value = s.initial
		s.Revert()
	}
	return nil
}

func (s *State[T]) prepare(ctx context.Context, w *Write) (err error) {
	if err := s.usable(ctx); err != nil {
		return err
	}
	w.Version, w.Epoch = s.at.version, s.epoch
	if w.Delete {
		return nil
	}
	if w.Value, err = proto.Marshal(s.value); err != nil {
		return fmt.Errorf("%w: the value of %v: %w", ErrUnreadable, s.ref, err)
	}
	return nil
}
