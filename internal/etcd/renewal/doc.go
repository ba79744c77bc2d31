// Package renewal renews leases over one standing stream per etcd client.
//
// etcd's KeepAliveOnce opens a stream for each renewal, and etcd's client logs in before it opens
// one: with a user and a password every renewal is a bcrypt check and a raft proposal. Its KeepAlive
// keeps a stream, but does not say when the request was sent that an answer belongs to, and a safe
// deadline counts from there. A [Renewer] keeps one stream for all sessions of a client and matches
// answers to requests: etcd answers the requests of a stream one after the other.
//
// A stream that ends, for whatever reason (a member that stops, a token that etcd does not know any
// more, a right that was withdrawn), is opened again at the next renewal. A renewal that is not
// answered in time gives its stream up, and the next one goes to the client's next endpoint. Where
// standing streams are not answered in time again and again but fresh ones are, as behind
// `etcd grpc-proxy`, which answers at times of its own, each renewal gets a stream of its own.
//
// # What is not promised
//
// Requests of one stream end with it: one that etcd refuses ends the stream for all, and the
// others are sent again on the next one. Through a proxy an answer may belong to an earlier request
// of the proxy's own.
package renewal
