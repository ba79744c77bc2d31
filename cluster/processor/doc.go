// Package processor handles the events of a source in order, in one process at a time. Use it to project views,
// to publish an outbox, or to run automations.
//
//	views, err := processor.New(processor.Config[Order]{
//		Name:       "views",
//		Source:     orders,                           // reads events after a position
//		Handler:    project,                          // func(ctx, processor.Event[Order]) error
//		Checkpoint: checkpoints,                      // c.Checkpoints(), or package postgres
//		LeaderLock: processor.Election(c.Elections(), "views"), // only the leader of this election
//	})
//	err = views.Run(ctx)
//
// A program without a cluster gives it an elector of package elector, and calls its Run beside the processors. One
// elector may be the LeaderLock of any number of them.
//
// # Checkpoints
//
// A [Checkpoint] stores the position of the last event that is done. It is written once per batch. A process
// that becomes the leader claims the checkpoint with its token. From then on the checkpoint refuses smaller
// tokens, so a process that was paused and does not know that another has taken over cannot move the position.
//
//	             ┌──────────────── batch after batch ───────────────┐
//	leads ──► Claim ──► Read ──► Advance { Handler, Handler, … } ──┤
//	             ▲                                                 │
//	             └── after every failure: what is stored counts ◄──┘
//
// If the checkpoint is part of the transaction in which the handler writes (package postgres), each event takes
// effect once. If it is kept elsewhere ([Etcd], [Memory]) and the process dies, the events of its last batch
// are handled again; the handler must then tolerate repetition.
//
// # Events that fail
//
// An event that fails is tried again alone, after a growing pause. Earlier events of the batch are not delayed;
// later events wait. After MaxAttempts failures the event is parked: [Config.OnPark] is called, a record of the
// event is stored beside the checkpoint, and the position moves past the event, all in one step. A panic of the
// handler is a failure. If a panic ended the process instead, one event could end every process in turn, with
// all else that runs there.
//
// # Operators
//
// A [Manager], which every checkpoint of this module is, lists the processors of the whole cluster, pauses, resumes
// and rewinds them, and shows, retries and drops their parked events. Requests are stored beside the checkpoint: the
// leader follows them, and so does the next one. [Pause] and [Retry] wait until the leader has. A paused processor
// keeps its lead.
//
// # What is not promised
//
//   - A handler need not end when its context does. Only the checkpoint stops the work that continues after
//     that: nothing is stored for it, but its effects elsewhere remain.
//   - An event that ends the process (os.Exit, out of memory) is not parked, because attempts are counted in
//     memory.
//   - A report of a leader that was killed stays. Only its age shows that.
//   - Events that appear at a position that was already passed are missed. A source must not return a later
//     event before an earlier one; see [Source].
//
// Experimental: the API of this package may change in any minor release.
package processor
