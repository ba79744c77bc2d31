// Package client calls the objects of a cluster from programs that are not nodes. Such a program needs neither
// etcd nor a port of its own, only the addresses of some nodes.
//
//	c, err := client.Dial(ctx, client.Config{Addresses: []string{"10.0.0.1:47001", "10.0.0.2:47001"}})
//	…
//	defer c.Close()
//	counterpb.NewCounterClient(c.At("alice")).Add(ctx, &counterpb.AddRequest{Amount: 5})
//
// A client watches the routes, which are the shard map and the leader, at one node, and calls the owners of
// objects directly. Calls follow an object that moves, as calls from a node do. When the watched node dies, is
// silent for 2.5 s, or reports that it is cut off from etcd, the client watches another node that it knows: one
// of the addresses in its configuration, or a reported owner of shards. Once a minute it changes to another
// node anyway, so that many clients spread over the nodes. If calls wait for routes that do not come, it
// changes at once.
//
// The routes also name the nodes that are present. The client closes its connections to a node that is no
// longer present, which ends the calls there: the node's process may stand still.
//
//	                 watch: generation, owners, leader
//	any node ◄──────────────────────────────────────── client ── Resolver ──► goverse:///leader
//	                                                     │ At(key)
//	                 calls, and their replies            ▼
//	owner of the key's shard ◄──────────────────────── route
//
// # Older shard maps
//
// The generation of the shard map only grows. A node that reports an older generation than the client knows is
// lagging, and is not watched. The client accepts an older map in two cases, both of which mean that the
// cluster was created anew or that etcd was restored from a backup. Either the node reports twice, a second
// apart, that its view is current and has not changed; or, with nodes that cannot report this, the client finds
// for 10 s no node with a map as new as its own. Later reports of a watched node replace its earlier ones,
// whatever their generation.
//
// Routes are hints. A node refuses calls for shards that it does not own, so wrong routes delay calls but do
// not misdirect them.
//
// # What is not promised
//
//   - A call may run more than once; see package objects for the meaning of its error.
//   - Routes may be out of date. In particular, calls to the leader may reach a former leader. Guard actions of
//     the leader by its fencing token.
//   - A call may be delayed by a node that is silent while its connections stay open, because its process is
//     paused or its network is gone. The delay lasts until the cluster has removed that node, at most slightly
//     more than one TTL. If the nodes' version does not report removals, it lasts until the connection is given
//     up, after about 15 s.
//   - Calls in flight while the cluster is created anew may wait until their deadline without being started.
//   - Connections may be many. There is one to each owner of shards that is called. It is closed 10 to 20 s
//     after that node has lost its last shard.
//
// Experimental: the API of this package may change in any minor release.
package client
