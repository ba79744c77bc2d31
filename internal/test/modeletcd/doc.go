// Package modeletcd is a model of etcd, of one member or several, and of the network before it, for tests in
// virtual time (testing/synctest): what runs on etcd's client runs on it as it is, and everything can go wrong.
//
//	client ──► Conn (Delivery, Hold) ──► Etcd: keys, leases, watches
//	   ◄──────────────┘                        │
//	   ◄───────────── watch (Break, Freeze) ◄──┘
//
// Requests are carried out one after the other, each at an instant, as etcd's own protocol has
// them. What a client has sent and given up may be carried out later: no order holds between two
// requests of one client, and none between an answer and a watch.
//
// Members stop, go on, are cut off from each other, and change their leader ([NewCluster]): one that was
// deposed answers renewals until it hears of that.
//
// What is not modelled is refused as unimplemented: options of ranges and of writes that no package of this
// module uses; fragments and filters of watches. A test compares the model with etcd itself.
//
// Not promised: anything about etcd's client. Requests go past its retries, and watches past its
// streams; a watch that breaks is resumed as that client does it.
package modeletcd
