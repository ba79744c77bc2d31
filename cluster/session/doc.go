// Package session is the vocabulary of sessions: why one was lost, and the error to test
// for. A node's session is one etcd lease and its safe deadline; package cluster shows it
// as [github.com/goverse/goverse/cluster.Session].
//
// Causes of contexts that end with a session match ErrLost:
//
//	if errors.Is(context.Cause(ctx), session.ErrLost) { ... }
//
// # What is not promised
//
// That a lost session's reason is the first thing that went wrong: it is what this process
// noticed first.
package session
