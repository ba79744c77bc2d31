// Package objects hosts gRPC services that are implemented for one key at a time. An object is named by a
// service and a key. It has at most one *activation* in the whole cluster, on the node that owns the key's
// shard. The first call activates the object. It is deactivated when it is idle, when its shard moves, or when
// a call panics.
//
// The following registers a service before Start. It needs only the standard plugins of protoc:
//
//	objects.Register(c, counterpb.RegisterCounterServer,
//		func(ctx context.Context, o *objects.Object) (counterpb.CounterServer, error) {
//			return &counter{key: o.Key()}, nil
//		})
//
// Any node calls the object with
//
//	counterpb.NewCounterClient(c.Objects().At("alice")).Add(ctx, &counterpb.AddRequest{Amount: 5})
//
// A gRPC client in any language calls it through any node, with the header [KeyHeader].
//
// # Turns
//
// The calls of an object run one at a time, in the order of their arrival. Each call is a *turn*, and so is
// each tick of a timer. Methods named by [Concurrent] run beside the others. A call may come back, directly or
// through other objects, to an object that is waiting for it. It then fails with FAILED_PRECONDITION unless
// [Reentrant] allows it to enter.
//
// # Failed calls
//
// [NotStarted] reports whether a failed call certainly had no effect. After any other error, the call may have
// run or may still run. Goverse repeats, up to the deadline, calls that were certainly not started because
// their object's shard was moving to another node. It repeats other calls only if [Idempotent] names their
// method.
//
// # What is not promised
//
//   - A call may run twice if its node dies while it runs and the caller repeats it. Package
//     cluster/objects/state stores an effect only once.
//   - Two activations may overlap if a process stands still until it is removed, and goes on. The old one's writes
//     are refused if the store compares [Object.Epoch].
//   - A method need not end when its context does. Its caller does not wait for it, but the object does, and so
//     does the move of its shard.
//
// Experimental: the API of this package may change in any minor release.
package objects
