// Package state keeps what virtual actors ("objects") know, beyond the process that they are in: loaded at
// activation, saved at the end of a turn, and fenced by the epoch of the shard, so that a former owner which
// was paused overwrites nothing.
//
//	// The factory, for objects.Register:
//	func(ctx context.Context, o *objects.Object) (pb.CounterServer, error) {
//		s, err := state.Load(ctx, store, o, &pb.Counter{})
//		return &Counter{state: s}, err
//	}
//
//	func (c *Counter) Add(ctx context.Context, in *pb.AddRequest) (*pb.AddReply, error) {
//		id, _ := state.RequestID(ctx)
//		return state.Do(ctx, c.state, id, func(ctx context.Context) (*pb.AddReply, error) {
//			c.state.Value().Total += in.By
//			return &pb.AddReply{Total: c.state.Value().Total}, nil
//		})
//	}
//
// The states lie in a [Store]: in PostgreSQL (package postgres), in etcd (package etcd, for small ones), in
// this process ([Memory], for tests), or in one of your own, which package statetest checks.
//
// # Fencing
//
// [Load] claims the object for the epoch of its activation, and makes a new version of the record. A save
// names the version that it replaces, and the store compares and writes in one step. So after a Load nothing
// is stored that was begun before it, neither by a smaller epoch ([ErrFenced]) nor by the same one
// ([ErrConflict]), also if the request is still in flight: what Load returns is final.
//
//	          ┌────────────── one turn after the other ──────────────┐
//	Load ──► Value: read, change ──► Save, or Do: the state and the reply, in one write
//	  ▲                                │
//	  └── Reload, or a new activation ◄┘ refused, or the outcome is not known: ErrStale
//
// # Errors
//
// After any error of Save, Delete and Do the value is what it was when it was stored last: changes that were
// not stored are gone. What else is to be done depends on the error:
//
//	error               stored?     the State         gRPC code          what to do
//	ErrFenced           no          stale             UNAVAILABLE        another node has the object
//	ErrConflict         no          stale             ABORTED            call again
//	ErrOutcomeUnknown   not known   stale             UNKNOWN            call again: the next activation shows it
//	ErrStale            no          stale before      UNAVAILABLE        call again
//	ErrUnavailable      no          can be used       UNAVAILABLE        try again
//	ErrTooLarge         no          can be used       RESOURCE_EXHAUSTED keep less in one object
//	ErrBadRequestID,
//	ErrRequestIDReused  no          can be used       INVALID_ARGUMENT   it is the caller's mistake
//	ErrBadRef           no          can be used       INVALID_ARGUMENT   use another key
//	ErrUnreadable       no          can be used       INTERNAL           see to the record, or the program
//
// A method may return these errors as they are, or wrapped: gRPC sends the code and the text of the error above. What
// else is in them, like a database's own words, callers do not see: they get a reference, and the log of the object's
// node has the text. A State that becomes stale
// deactivates its object, so that the next call activates and loads it anew (see [Load]); [State.Err] says so, and
// [State.Reload] is for those who do not want that.
//
// # Calls that are repeated
//
// A caller that got no answer does not know whether its call took effect. With a request id ([WithRequestID],
// [RequestID], [Do]) it may repeat the call, on whichever node the object is by then: the reply is stored
// with the state, and a call whose reply is there gets that one and changes nothing.
//
// # What is not promised
//
//   - That a node which lost its shard notices it when it reads: Value does not ask the store. Only what is
//     saved is fenced.
//   - Anything about what fn of Do does elsewhere: it runs again when nothing was stored.
//   - That a call is recognised after the store's retention of replies, 24 h by default.
//   - That an error of fn is remembered: a refusal which has to stay one is a reply.
//   - Transactions over several objects.
//   - That objects can be loaded when epochs have begun anew, with an etcd that lost its data: every Load is an
//     ErrFenced until the epochs in the store are set to 0. First make sure that no former owner runs.
package state
