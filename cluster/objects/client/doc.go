// Package client calls the objects of a cluster from programs that are no nodes of it: they need neither etcd nor a
// port of their own, only the addresses of some nodes.
//
//	c, err := client.Dial(ctx, client.Config{Addresses: []string{"10.0.0.1:47001", "10.0.0.2:47001"}})
//	…
//	defer c.Close()
//	counterpb.NewCounterClient(c.At("alice")).Add(ctx, &counterpb.AddRequest{Amount: 5})
//
// A client watches the routes, which are the shard map and the leader, at one node, and calls the owners of objects
// directly. When an object moves, calls follow it as they do from a node. When the watched node dies, is silent for
// 2.5 s, or says that it is cut off from etcd, the client watches another one of those that it knows: the addresses of
// its configuration, and all owners of shards that it has heard of. Once a minute it changes to another node anyway, so
// that many clients spread over the nodes. A client whose calls wait for routes that do not come changes at once.
//
// The routes also name the nodes that are there. The connections to one that is not any more are closed, and calls
// under way there end: its process may stand still.
//
//	                 watch: generation, owners, leader
//	any node ◄──────────────────────────────────────── client ── Resolver ──► goverse:///leader
//	                                                     │ At(key)
//	                 calls, and their replies            ▼
//	owner of the key's shard ◄──────────────────────── route
//
// # Which routes count
//
// The generation of the shard map only grows. A node that says an older one than the client knows lags, and is not
// watched. The client takes an older map if its node says twice, a second apart, that its view is current and nothing
// newer has come; or, of a node that cannot say so, if for 10 s no node could be found that knows as new a map: the
// cluster was then made anew, or etcd restored from a backup. What a watched node itself says later replaces what it
// said before, whatever the generation. Routes are hints: a node refuses calls for shards that it does not own, so
// wrong routes delay calls, and do not mislead them.
//
// # What is not promised
//
//   - That a call runs once: see package objects for what its error says.
//   - That routes are current. The leader, above all, is who was reported as the leader, and a former one may still be
//     called: guard what only the leader may do by its fencing token.
//   - That a call is not held up by a node that is silent while its connections stand, because its process is paused
//     or its network gone: it is held up until the cluster has removed that node, one TTL at most and a moment; where
//     the nodes are of a version that does not report that, until the connection is given up, after about 15 s.
//   - That calls under way when the cluster is made anew are started: they may wait until their deadline.
//   - That connections are few: there is one to each owner of shards that is called, closed 10 to 20 s after it owns
//     none any more.
package client
