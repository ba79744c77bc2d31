// Package leaderonly lets only the leader answer: middleware for HTTP, and interceptors for gRPC, for
// services that run as several copies behind a load balancer, where anybody may read and the leader
// alone may write.
//
//	mux.Handle("/configs/", leaderonly.Handler(leaderonly.Cluster(c), configs, leaderonly.Options{}))
//
//	func (s *configs) put(w http.ResponseWriter, r *http.Request) {
//		term, _ := leaderonly.TermFrom(r.Context())
//		_, err := term.Txn(r.Context()).Then(clientv3.OpPut(key, value)).Commit() // only while it leads
//	}
//
// For the leader's URL to be known, cluster.Config.HTTPAddress must say where the others reach each node;
// without it a request is refused where it could be redirected or forwarded.
//
// It is decided when the request comes in, before anything of its body is read. On the leader the
// handler runs as the term's work, by AsLeader: a leader that gives way waits for it, and its
// transactions commit until it has returned. Elsewhere a request is refused, sent to the leader with
// 307, or forwarded to it ([Options].Elsewhere). While nobody leads, it waits for the next leader, for
// Options.Wait at most; so a transfer costs no request.
//
//	                       this node leads
//	request ──────────────────────────────────────► handler, in AsLeader
//	   ▲  │                another one does
//	   │  ├───────────────────────────────────────► refuse (503), redirect (307), forward
//	   │  │ nobody does                                 │ the leader was certainly not reached,
//	   └──┴─ wait, up to Options.Wait ◄─────────────────┘ or refused it
//
// # What a refusal says
//
// Every 503 of this package, and every UNAVAILABLE, says that nothing has run: the request can be sent
// anew, to any node, whatever it does. It has [RefusedHeader] with one of the reasons, [LeaderHeader]
// with the leader's URL if that is known, Retry-After, and a body as RFC 9457 has it:
//
//	HTTP/1.1 503 Service Unavailable
//	Content-Type: application/problem+json
//	Goverse-Leader: http://10.0.0.2:8080
//	Goverse-Refused: not-leader
//	Retry-After: 1
//
//	{"type":"urn:goverse:problem:not-leader","title":"Not the leader","status":503,"reason":"not-leader",
//	 "leader":"http://10.0.0.2:8080","detail":"..."}
//
// A handler behind a load balancer that repeats what was answered 503 must not answer 503 once it has
// begun to write: 500 or 504 are for that. 502 of this package says that a forwarded request may have
// been carried out, and nobody knows.
//
// # Requests that come again
//
// A load balancer sends a request that was refused to the next node, and does not wait between two. It
// should say so, from the second time round on, by [RetryHeader]: then those before it pointed to a
// leader that refuses it, or is dead. The node that is next in the queue keeps such a request until it
// leads; see deploy/nginx.
//
// # What is not promised
//
// A handler that runs past its context's end runs while another node leads; what it writes belongs into
// transactions of its term, or goes along with the token, for the store to refuse. Whether a request
// takes effect once is the handler's to see to, by an id that comes with it. The headers named here
// are taken from anybody who connects: they make a request wait, or not be forwarded, no more; a load
// balancer should drop those that a client sent. What a client says in X-Forwarded-For, -Host and -Proto is
// forwarded along with this node's own, as behind a load balancer it must be; it proves nothing.
package leaderonly
