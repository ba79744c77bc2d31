// Package modeletcd is a model of etcd, of one member or several, and of the network in front of it, for tests
// in virtual time (testing/synctest). Code that uses etcd's client runs on it unchanged, and every fault can be
// injected.
//
//	client ──► Conn (Delivery, SetHeld) ──► Etcd: keys, leases, watches
//	   ◄──────────────┘                           │
//	   ◄────── watch (BreakWatches, SetFrozen) ◄──┘
//
// Requests are executed one after the other, each at one instant, and have the form of etcd's own protocol. A
// request that its client has given up may still be executed later. There is no order between two requests of
// one client, nor between an answer and a watch.
//
// Members stop, continue, are cut off from each other, and change their leader ([NewCluster]). A deposed leader
// answers renewals until it learns that it was deposed.
//
// Requests that are not modelled fail as unimplemented: options of ranges and writes that no package of this
// module uses, and fragments and filters of watches. A test compares the model with etcd itself.
//
// Not promised: the behaviour of etcd's client. Requests bypass its retries, and watches bypass its streams. A
// broken watch is resumed in the same way as that client resumes it.
package modeletcd
