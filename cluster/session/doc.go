// Package session defines why a session was lost, as a [Reason] and as an error. The session of a node is one
// etcd lease and the local deadline up to which the node may rely on it; package cluster exposes it as
// [github.com/goverse/goverse/cluster.Session].
//
// The cause of a context that ends with a session matches ErrLost:
//
//	if errors.Is(context.Cause(ctx), session.ErrLost) { ... }
//
// # What is not promised
//
// The reason of a lost session is the first problem that this process noticed. It need not be the first that
// occurred.
package session
