// Package automation works off the items of a to-do list: each item is executed by one process at a time, whichever
// is free, or by the leader alone. A list is a query for open items, such as invoices that are not paid or accounts
// without a welcome mail; executing an item takes it off the list.
//
//	mails, err := automation.New(automation.Config[Invoice]{
//		Name:    "mails",
//		Source:  invoices,                       // package postgres, or NewList
//		Execute: send,                           // func(ctx, automation.Item[Invoice]) error
//	})
//	err = mails.Run(ctx)                             // in every process
//
// In contrast to a processor, an automation promises no order, and an item that fails holds up no other.
//
//	           ┌──────────────── Concurrency workers ────────────────┐
//	Source ──► claim ──► Execute ──► done                            │
//	   ▲         │          ├──────► failed: again after a pause ────┤
//	   │         │          └──────► parked: OnPark, no more attempts│
//	   └─────────┴──── no item is due: poll ◄────────────────────────┘
//
// The next worker claims as soon as an item is found, so an idle process asks the source once per PollInterval, however
// many workers it has.
//
// # How often an item is executed
//
//	source, option             one at a time   the executor's writes      its effects elsewhere
//	package postgres           row lock        once, with the mark        at least once
//	NewList with Locks         lock            at least once              at least once
//	NewList, LeaderLock alone  leader lock     at least once              at least once
//	any, with Once             as above        see Config.Once            at most once
//
// With package postgres, the item's row is locked with FOR UPDATE SKIP LOCKED in a transaction of its own. The
// executor's writes in it and the mark that the item is done take effect together, or neither does. In a list, an item
// is executed again if the process dies before the item is off the list. Config.Once excludes that: an item with an
// unknown outcome is parked, for a person to resolve.
//
// # Items that fail
//
// An item that fails is executed again after a growing pause, while other items go on. After MaxAttempts failures it
// is parked. An error that matches processor.ErrPoison parks it at once; one that matches processor.ErrUnavailable
// does not count as an attempt. A panic is a failure. Package postgres keeps attempts, pauses and parked items in the
// database, for all processes; a list keeps them in the memory of each process.
//
// # What is not promised
//
//   - Items are executed in no particular order.
//   - An executor need not end when its context does. After the loss of a lock, two processes may then execute the
//     item. Fence its writes with [TokenFrom], or use package postgres: a row lock lasts as long as the transaction.
//   - An item that ends the process (os.Exit, out of memory) is not parked: such an attempt is not counted.
//   - An item that is still on a list after it was executed is executed again, after a second.
//
// Experimental: the API of this package may change in any minor release.
package automation
