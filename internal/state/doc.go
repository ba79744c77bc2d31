// Package state is the cluster's state as one immutable value, and the key
// layout under which it lies in etcd.
//
// Everything here is pure: no goroutine, no clock, no I/O. A [Snapshot] is the
// cluster at one etcd revision; [Build] makes it from a read of the range and
// [Snapshot.Apply] folds a batch of watch events into the next one. Values are
// shared freely between goroutines because nobody changes them after they were
// made.
//
// # What is not promised
//
// A snapshot says what etcd held at its revision, not what it holds now. It
// does not know whether this process may still act on it: that is what a
// session's deadline is for.
package state
