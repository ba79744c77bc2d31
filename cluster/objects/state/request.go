package state

import (
	"context"
	"fmt"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// RequestIDHeader is the gRPC metadata key of a call's request id.
const RequestIDHeader = "goverse-request-id"

// maxRequestID is in bytes.
const maxRequestID = 200

// RequestID returns the request id of the gRPC call that is served with ctx. ok is false if its metadata has
// none. RequestID does not check the id; Do does.
func RequestID(ctx context.Context) (id string, ok bool) {
	values := metadata.ValueFromIncomingContext(ctx, RequestIDHeader)
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// WithRequestID returns a context that adds the id to its gRPC calls. Use a new id for each call that is to
// take effect once, and the same id for each repetition of the call.
func WithRequestID(ctx context.Context, id string) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	md.Set(RequestIDHeader, id)
	return metadata.NewOutgoingContext(ctx, md)
}

// CheckRequestID returns an error that matches [ErrBadRequestID] unless the id has 1 to 200 printable ASCII
// characters, which gRPC metadata can carry.
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

// Do carries out a call once for each request id. If the reply to the id is stored, Do returns it and does
// nothing more. Otherwise it runs fn, and stores the state and the reply of fn in one write. A call that is
// repeated, on this node or another one, thus takes effect once, for as long as the store keeps replies. With
// an empty id, Do runs fn and saves.
//
// Change the value only in fn. fn must call neither Save nor Do, but may call [State.Delete]. If fn fails or
// panics, or if the save fails, the value is again as it was last stored. Do then returns the error: fn's own
// error unchanged, or one listed in the package comment. fn may run again for the same id; effects outside the
// state are not undone. fn gets ctx.
//
// Request ids belong to one object; other objects do not know them. If the stored reply has another type than
// R, the id belongs to another method, and the error is ErrRequestIDReused. R is the pointer type of a
// generated message. Do blocks on the store twice: for the reply and for the save. Do uses the State, so only
// one goroutine may call it at a time.
func Do[T, R proto.Message](ctx context.Context, s *State[T], requestID string,
	fn func(ctx context.Context) (R, error)) (reply R, err error) {
	var none R
	if s.inDo {
		return none, errInDo
	}
	done := false
	defer func() {
		if !done {
			s.Revert()
		}
	}()
	if err := s.checkUsable(ctx); err != nil {
		return none, err
	}
	if requestID != "" {
		if reply, ok, err := loadReply[T, R](ctx, s, requestID); ok || err != nil {
			return reply, err
		}
	}
	reply, remove, err := callFn(ctx, s, fn)
	if err != nil {
		return none, err
	}
	w := Write{Delete: remove, RequestID: requestID}
	if requestID != "" {
		if w.Reply, err = packReply(reply); err != nil {
			return none, err
		}
	}
	if err := s.writeRecord(ctx, w); err != nil {
		return none, err
	}
	done = true
	return reply, nil
}

// callFn runs fn and reports whether it deleted the state.
func callFn[T, R proto.Message](ctx context.Context, s *State[T],
	fn func(ctx context.Context) (R, error)) (reply R, remove bool, err error) {
	s.inDo, s.deleted = true, false
	defer func() { s.inDo = false }()
	reply, err = fn(ctx)
	return reply, s.deleted, err
}

// loadReply returns the reply to the id, if there is one.
func loadReply[T, R proto.Message](ctx context.Context, s *State[T], id string) (reply R, ok bool, err error) {
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

// packReply serializes a reply together with the name of its type.
func packReply(reply proto.Message) ([]byte, error) {
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
