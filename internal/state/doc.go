// Package state models the cluster's state as one immutable value, and defines its keys in etcd.
//
// Everything here is pure: no goroutine, no clock, no I/O. A [Snapshot] is the cluster at one etcd revision.
// [BuildSnapshot] makes it from a read of the range, and [Snapshot.Apply] folds a batch of watch events into the next
// one. Values may be shared freely between goroutines, because nothing changes them once they are made.
//
// # What is not promised
//
// A snapshot holds the state in etcd at its revision, not the present one. Whether this process may still act
// on it is a question for the session's deadline.
package state
