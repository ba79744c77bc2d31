package state

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Holder provides the name of an object and the epoch under which this node owns its shard. An *objects.Object
// is one.
type Holder interface {
	Service() string
	Key() string
	Epoch() int64
}

// State holds the state of one activation. Only one goroutine at a time may use it, its methods, or Do: the
// goroutine of the object's turn. If the service's calls run concurrently, hold your own lock while you use the
// State or its value. A State keeps its value twice: as a message and serialized.
type State[T proto.Message] struct {
	store   Store
	ref     Ref
	epoch   int64
	value   T
	initial []byte // the value of an object without a stored state
	stored  storedRecord

	inDo    bool // fn of Do runs
	deleted bool // by fn

	tx       *transaction // has not ended yet
	beforeTx storedRecord // the record before the transaction

	err        error  // the reason if it is stale
	deactivate func() // deactivates the object when it becomes stale
}

// storedRecord holds the stored record, as far as the State knows.
type storedRecord struct {
	version int64
	exists  bool
	value   []byte
}

// Load claims the object for its epoch and reads its state into value. If there is no stored state, value keeps
// its content. From then on, the store refuses saves by former owners and by former States of this object. Call
// Load once, at activation: each Load makes earlier States unusable.
//
// When the State becomes stale (see [State.Err]), it calls o.Deactivate if o has that method, as *objects.Object
// has. The activation then ends after the turn. To use Reload instead, pass a Holder without the method:
//
//	struct{ state.Holder }{o}
//
// value belongs to the State afterwards. Errors match ErrFenced (an owner with a larger epoch has loaded the
// object), ErrUnavailable, ErrBadRef or ErrUnreadable. Load blocks while the store does.
func Load[T proto.Message](ctx context.Context, store Store, o Holder, value T) (*State[T], error) {
	s := &State[T]{store: store, ref: Ref{o.Service(), o.Key()}, epoch: o.Epoch(), value: value, deactivate: func() {}}
	if d, ok := o.(interface{ Deactivate() }); ok {
		s.deactivate = d.Deactivate
	}
	if err := s.ref.Validate(); err != nil {
		return nil, err
	}
	var err error
	if s.initial, err = (proto.MarshalOptions{AllowPartial: true}).Marshal(value); err != nil {
		return nil, fmt.Errorf("%w: the default value of %v: %w", ErrUnreadable, s.ref, err)
	}
	s.stored.value = s.initial
	if err := s.loadRecord(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *State[T]) loadRecord(ctx context.Context) error {
	r, err := s.store.Load(ctx, s.ref, s.epoch)
	if err != nil {
		return readError("load the state", s.ref, err)
	}
	at := storedRecord{r.Version, r.Found, r.Value}
	if !r.Found {
		at.value = s.initial
	}
	if err := setMessage(s.value, at.value); err != nil {
		s.Revert()
		return fmt.Errorf("%w: the stored state of %v is no %s: %w", ErrUnreadable, s.ref,
			s.value.ProtoReflect().Descriptor().FullName(), err)
	}
	s.stored, s.tx, s.err = at, nil, nil
	return nil
}

// setMessage replaces the content of a message. A default value may lack fields that proto2 requires.
func setMessage(m proto.Message, b []byte) error {
	return proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(b, m)
}

// Value returns the state. It is always the same message, for reading and changing. Changes are stored once
// Save or Do has returned nil. When the value is reset (see Revert), its fields are replaced; so do not keep
// pointers to messages, lists or maps inside it from turn to turn.
func (s *State[T]) Value() T { return s.value }

// Exists reports whether there is a stored state.
func (s *State[T]) Exists() bool { return s.stored.exists }

// Ref returns the object's name.
func (s *State[T]) Ref() Ref { return s.ref }

// Epoch returns the epoch under which the State was loaded.
func (s *State[T]) Epoch() int64 { return s.epoch }

// Err returns nil if the value is the stored one, as far as is known, and the State can be saved. After a save
// that was refused or has an unknown outcome, it returns an error that matches both ErrStale and the error of
// that save. The object must then be deactivated, which Load arranges, or Reload must be called.
func (s *State[T]) Err() error { return s.err }

// Revert resets the value to what was stored last, or to its default if nothing was. Use it in a turn that
// fails before it saves. Save, Delete and Do revert the value themselves when they fail. Revert does not ask
// the store.
func (s *State[T]) Revert() {
	if err := setMessage(s.value, s.stored.value); err != nil {
		panic(err) // it was a message when it was stored
	}
}

// Reload repeats Load in place. It makes a stale State usable again and reads the stored state. After an error
// the State is stale; ErrFenced then means that this activation is over. Reload returns an error within a
// transaction, which might undo it.
func (s *State[T]) Reload(ctx context.Context) error {
	switch {
	case s.inDo:
		return errInDo
	case transactionOf(ctx) != nil:
		return fmt.Errorf("%w: Reload cannot be part of a transaction: call it after that", ErrStale)
	}
	err := s.loadRecord(ctx)
	if err != nil {
		s.markStale(fmt.Errorf("%w (%w)", ErrStale, err))
	}
	return err
}

// markStale makes the State stale.
func (s *State[T]) markStale(err error) {
	s.err = err
	s.deactivate()
}

// Save stores the value in one write. After an error the value is again as it was last stored, and the State
// may be stale; see the package comment. A successful Save makes any other State of this object unusable. Save
// blocks while the store does.
func (s *State[T]) Save(ctx context.Context) error {
	if s.inDo {
		return errInDo
	}
	return s.writeRecord(ctx, Write{})
}

// Delete removes the stored state and sets the value to its default, as for an object that never had a state.
// Stored replies are kept as usual. If fn of Do calls Delete, it takes effect together with the reply when fn
// has returned nil; later changes by fn are not stored. It returns the same errors as Save.
func (s *State[T]) Delete(ctx context.Context) error {
	if s.inDo {
		s.deleted = true
		return nil
	}
	return s.writeRecord(ctx, Write{Delete: true})
}

// checkUsable returns an error if the State may not be used with ctx.
func (s *State[T]) checkUsable(ctx context.Context) error {
	switch {
	case s.err != nil:
		return s.err
	case s.tx != nil && s.tx != transactionOf(ctx):
		return fmt.Errorf("%w: %v was saved in a transaction whose end was not reported", ErrStale, s.ref)
	}
	return nil
}

// writeRecord stores the value, or deletes it if w.Delete is set, and records what is stored.
func (s *State[T]) writeRecord(ctx context.Context, w Write) error {
	if err := s.prepareWrite(ctx, &w); err != nil {
		s.Revert()
		return err
	}
	version, err := s.store.Save(ctx, s.ref, w)
	if err != nil {
		err = saveError(s.ref, err)
		if matchesAny(err, ErrFenced, ErrConflict, ErrOutcomeUnknown) {
			s.markStale(fmt.Errorf("%w (%w)", ErrStale, err))
		}
		s.Revert()
		return err
	}
	s.joinTransaction(ctx)
	s.stored = storedRecord{version, !w.Delete, w.Value}
	if w.Delete {
		s.stored.value = s.initial
		s.Revert()
	}
	return nil
}

func (s *State[T]) prepareWrite(ctx context.Context, w *Write) (err error) {
	if err := s.checkUsable(ctx); err != nil {
		return err
	}
	w.Version, w.Epoch = s.stored.version, s.epoch
	if w.Delete {
		return nil
	}
	if w.Value, err = proto.Marshal(s.value); err != nil {
		return fmt.Errorf("%w: the value of %v: %w", ErrUnreadable, s.ref, err)
	}
	return nil
}
