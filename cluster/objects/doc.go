// Package objects is the vocabulary of objects: gRPC services that are implemented for one key at a time.
// An object is named by a service and a key. It has at most one *activation* in the whole cluster, on the
// node that owns the key's shard, made by the first call and dropped when the object is idle, when its shard
// moves, or when a call panics.
//
//	objects.Register(c, counterpb.RegisterCounterServer,
//		func(ctx context.Context, o *objects.Object) (counterpb.CounterServer, error) {
//			return &counter{key: o.Key()}, nil
//		})
//
// registers a service before Start; nothing but the ordinary plugins of protoc is needed. Any node calls it by
//
//	counterpb.NewCounterClient(c.Objects().At("alice")).Add(ctx, &counterpb.AddRequest{Amount: 5})
//
// and a gRPC client of any language by the header [KeyHeader], through any node.
//
// # Turns
//
// The calls of an object run one at a time, in the order of their arrival: each is a *turn*, and so is each tick
// of a timer. Methods named by [Concurrent] run beside the others. A call that comes back to an object whose turn
// waits for it, through others or at once, fails with FAILED_PRECONDITION, or enters where [Reentrant] allows it.
//
// # What a caller may conclude
//
// Of a call that failed, [NotStarted] says whether it has certainly had no effect. With any other error it may
// have run, or run still. Calls that were certainly not started, because their object's shard was on its
// way to another node, are sent anew until the deadline; others only if [Idempotent] names their method.
//
// # What is not promised
//
//   - That a call runs once, where its node died while it ran and the caller repeats it: see package
//     cluster/objects/state for effects that are stored once.
//   - That an activation ends before the next one begins where the process stood still for longer than its
//     session: what the old one writes is refused by [Object.Epoch], if the store compares it.
//   - That a method ends when its context does. Its caller does not wait for it, but the object does, and
//     so does the move of its shard.
package objects
