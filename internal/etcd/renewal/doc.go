// Package renewal renews leases over one standing stream per etcd client.
//
// etcd's KeepAliveOnce opens a stream for each renewal, and etcd's client logs in before it opens one. With a
// user and a password every renewal then costs a bcrypt check and a raft proposal. Its KeepAlive keeps a stream
// but does not reveal when the request for an answer was sent, and a safe deadline counts from there. A
// [Renewer] keeps one stream for all sessions of a client and matches answers to requests. It can do so because
// etcd answers the requests of a stream one after the other.
//
// A stream may end because a member stops, a token is no longer known, a right was withdrawn, or for another
// reason. The next renewal opens it again. A renewal that is not answered in time abandons its stream, and the
// next one goes to the client's next endpoint; but it keeps a stream whose opening took most of its time. Behind
// `etcd grpc-proxy`, which answers at times of its own, standing streams time out again and again while fresh ones
// are answered. Each renewal then gets a stream of its own.
//
// # What is not promised
//
// All requests of a stream end with it: if etcd refuses one of them it ends the stream, and the others are sent
// again on the next one. Through a proxy, an answer may belong to an earlier request of the proxy's own.
package renewal
