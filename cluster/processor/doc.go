// Package processor handles the events of a source in order, in one process at a time: it
// projects views, publishes an outbox, runs automations.
//
//	views, err := processor.New(processor.Config[Order]{
//		Name:       "views",
//		Source:     orders,                           // reads events after a position
//		Handler:    project,                          // func(ctx, processor.Event[Order]) error
//		Checkpoint: checkpoints,                      // c.Checkpoints(), or package postgres
//		LeaderLock: processor.Election(c.Elections(), "views"), // only who leads this election
//	})
//	err = views.Run(ctx)
//
// # How far it has come
//
// The position after which to go on is kept in a [Checkpoint], and written once a batch. Who
// begins claims the checkpoint with its token: from there on who has a smaller one is refused,
// so a process that was paused, and does not know that another has taken over, moves nothing.
//
//	             ┌──────────────── batch after batch ───────────────┐
//	leads ──► Claim ──► Read ──► Advance { Handler, Handler, … } ──┤
//	             ▲                                                 │
//	             └── after every failure: what is stored counts ◄──┘
//
// With a checkpoint that is in the transaction of what the handler writes (package postgres),
// each event takes effect once. With one that is elsewhere (Etcd, Memory), a process that dies
// leaves the events of its last batch to be handled once more: let the handler bear that.
//
// # Events that fail
//
// An event that fails is tried again, after a growing pause, alone: what comes before it in the
// batch is not held up, what comes after waits. When it has failed MaxAttempts times it is
// parked: [Config.OnPark] is called, what is known of it is kept beside the checkpoint, and the
// position moves past it, all in one. A handler that panics has failed: left to end the
// process, one event would end each process in turn, with everything else that runs there.
//
// # Pauses
//
// [Processor.Pause] stops the handling, for maintenance of what the handler writes to, and nothing else: the lead and
// the claim stay here. It is of this process and in memory.
//
// # What is not promised
//
//   - That a handler ends when its context does. What goes on after that is stopped by the
//     checkpoint alone: nothing is stored for it, but what it did elsewhere was done.
//   - That an event which ends the process (os.Exit, out of memory) is parked: attempts are
//     counted in memory.
//   - That events which become visible at a position already passed are seen. A source must
//     not show a later event before an earlier one: see [Source].
package processor
