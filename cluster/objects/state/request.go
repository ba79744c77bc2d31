package state

import (
	"context"
	"fmt"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// RequestIDHeader is the gRPC metadata in which a call's request id travels.
const RequestIDHeader = "goverse-request-id"

// maxRequestID is in bytes.
const maxRequestID = 200

// RequestID returns the request id of the gRPC call that is served with ctx; ok is false if its metadata has
// none. It does not check it: Do does.
func RequestID(ctx context.Context) (id string, ok bool) {
	values := metadata.ValueFromIncomingContext(ctx, RequestIDHeader)
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// WithRequestID returns a context whose gRPC calls carry the id: one for each call that is meant once, and the
// same one for each time that it is repeated.
func WithRequestID(ctx context.Context, id string) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	md.Set(RequestIDHeader, id)
	return metadata.NewOutgoingContext(ctx, md)
}

// CheckRequestID reports whether an id can be used: 1 to 200 printable ASCII characters, which is what gRPC
// metadata can carry. Errors match [ErrBadRequestID].
func CheckRequestID(id string) error {
	if id == "" || len(id) > maxRequestID {
		return fmt.Errorf("%w: it has %d bytes", ErrBadRequestID, len(id))
	}
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' {
			return fmt.Errorf("%w: it has the byte %#x", ErrBadRequestID, id[i])
		}
	}
	return nil
}

// Do carries out a call once for each request id. If the id's reply is stored, Do returns it and does nothing
// else; else it runs fn, and stores the state and the reply that fn returned in one write. So a call that is
// repeated, on this node or another one, takes effect once, for as long as the store keeps replies. With an
// empty id, Do runs fn and saves.
//
// The value may be changed in fn alone, and fn calls neither Save nor Do; [State.Delete] it may call. If fn
// fails or panics, or the save fails, the value is what it was when it was stored last, and Do returns the
// error: fn's own as it is, or one of the package comment's. fn may then run again for the same id; what it
// did elsewhere is not undone. fn gets ctx.
//
// Ids are an object's own: another object does not know them. An id whose reply is of another type than R
// belongs to another method: ErrRequestIDReused. R is a generated message's pointer type. Do blocks as the
// store does, twice: for the reply, and for the save. It is a use of the State, so it is for one goroutine at
// a time.
func Do[T, R proto.Message](ctx context.Context, s *State[T], requestID string,
	fn func(ctx context.Context) (R, error)) (reply R, err error) {
	var none R
	if s.doing {
		return none, errInDo
	}
	done := false
	defer func() {
		if !done {
			s.Revert()
		}
	}()
	if err := s.usable(ctx); err != nil {
		return none, err
	}
	if requestID != "" {
		if reply, ok, err := stored[T, R](ctx, s, requestID); ok || err != nil {
			return reply, err
		}
	}
	reply, remove, err := turn(ctx, s, fn)
	if err != nil {
		return none, err
	}
	w := Write{Delete: remove, RequestID: requestID}
	if requestID != "" {
		if w.Reply, err = pack(reply); err != nil {
			return none, err
		}
	}
	if err := s.write(ctx, w); err != nil {
		return none, err
	}
	done = true
	return reply, nil
}

// turn runs fn, and reports whether it has deleted the state.
func turn[T, R proto.Message](ctx context.Context, s *State[T],
	fn func(ctx context.Context) (R, error)) (reply R, remove bool, err error) {
	s.doing, s.deleted = true, false
	defer func() { s.doing = false }()
	reply, err = fn(ctx)
	return reply, s.deleted, err
}

// stored is the reply to the id, if there is one.
func stored[T, R proto.Message](ctx context.Context, s *State[T], id string) (reply R, ok bool, err error) {
	var none R
	if err := CheckRequestID(id); err != nil {
		return none, false, err
	}
	b, ok, err := s.store.Reply(ctx, s.ref, id)
	if err != nil {
		return none, false, readError("read a reply", s.ref, err)
	}
	if !ok {
		return none, false, nil
	}
	reply = none.ProtoReflect().Type().New().Interface().(R)
	packed := &anypb.Any{}
	if err := proto.Unmarshal(b, packed); err != nil {
		return none, false, fmt.Errorf("the reply of %v to %q: %w: %w", s.ref, id, ErrUnreadable, err)
	}
	if !packed.MessageIs(reply) {
		return none, false, fmt.Errorf("the reply of %v to %q is a %s: %w", s.ref, id, packed.MessageName(),
			ErrRequestIDReused)
	}
	if err := packed.UnmarshalTo(reply); err != nil {
		return none, false, fmt.Errorf("the reply of %v to %q: %w: %w", s.ref, id, ErrUnreadable, err)
	}
	return reply, true, nil
}

// pack serializes a reply with the name of its type.
func pack(reply proto.Message) ([]byte, error) {
	packed, err := anypb.New(reply)
	if err != nil {
		return nil, fmt.Errorf("%w: the reply: %w", ErrUnreadable, err)
	}
	b, err := proto.Marshal(packed)
	if err != nil {
		return nil, fmt.Errorf("%w: the reply: %w", ErrUnreadable, err)
	}
	return b, nil
}
