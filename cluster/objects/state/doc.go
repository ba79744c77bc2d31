// Package state stores the state of objects outside their process. The state is loaded at activation and saved
// at the end of a turn. The epoch of the shard fences every save, so that a former owner that was paused
// overwrites nothing.
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
// A [Store] keeps the states: in PostgreSQL (package postgres), in etcd (package etcd, for small states), in
// this process ([Memory], for tests), or in your own store, which package statetest checks.
//
// # Fencing
//
// [Load] claims the object for the epoch of its activation and gives the record a new version. A save names the
// version that it replaces, and the store compares and writes in one step. After a Load, the store therefore
// refuses every save that was begun before it: saves of a smaller epoch with [ErrFenced], and saves of the same
// epoch with [ErrConflict]. That includes requests still in flight, so the value that Load returns is final.
//
//	          ┌────────────── one turn after the other ──────────────┐
//	Load ──► Value: read, change ──► Save, or Do: the state and the reply, in one write
//	  ▲                                │
//	  └── Reload, or a new activation ◄┘ refused, or the outcome is not known: ErrStale
//
// # Errors
//
// After any error of Save, Delete or Do, the value is again as it was last stored: changes that were not stored
// are gone. What to do next depends on the error:
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
//	ErrUnreadable       no          can be used       INTERNAL           check the record, or the program
//
// A method may return these errors as they are, or wrapped. gRPC then sends the code and the text of the error
// above. Callers do not see the texts of other wrapped errors, such as a database's; they get a reference, and
// the log of the object's node has the text.
//
// A State that becomes stale deactivates its object, so that the next call activates the object and loads its
// state anew (see [Load]). [State.Err] reports a stale State. To keep the activation instead, use
// [State.Reload].
//
// # Calls that are repeated
//
// A caller that got no answer does not know whether its call took effect. With a request id ([WithRequestID],
// [RequestID], [Do]) it may repeat the call, no matter which node owns the object by then. The store keeps the
// reply together with the state. A repeated call gets the stored reply and changes nothing.
//
// # What is not promised
//
//   - A node that lost its shard does not notice this by reading: Value does not ask the store. Only saves are
//     fenced.
//   - Effects of Do's fn outside the state are not undone. fn runs again if nothing was stored.
//   - A repeated call is not recognised after the store's retention of replies, 24 h by default.
//   - Errors of fn are not stored. To make a refusal permanent, return it as a reply.
//   - There are no transactions over several objects.
//   - Objects cannot be loaded after epochs have started again because etcd lost its data: every Load returns
//     ErrFenced until the epochs in the store are set to 0. First make sure that no former owner runs.
//
// Experimental: the API of this package may change in any minor release.
package state
