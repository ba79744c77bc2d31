// Package leaderonly provides middleware for HTTP and interceptors for gRPC that restrict requests to the leader.
// It is for services that run as several copies behind a load balancer, where every node may read but only the
// leader may write.
//
//	mux.Handle("/configs/", leaderonly.Handler(leaderonly.Cluster(c), configs, leaderonly.Options{}))
//
//	func (s *configs) put(w http.ResponseWriter, r *http.Request) {
//		term, _ := leaderonly.TermFrom(r.Context())
//		_, err := term.Txn(r.Context()).Then(clientv3.OpPut(key, value)).Commit() // only while it leads
//	}
//
// To make the leader's URL known, set cluster.Config.HTTPAddress of each node to an address that the others
// reach. Without it, requests are refused instead of redirected or forwarded.
//
// The decision is made when the request arrives, before its body is read. On the leader the handler runs as work
// of the term, through AsLeader: a leader that gives way waits for it, and its transactions commit until it has
// returned. On other nodes a request is refused, redirected to the leader with 307, or forwarded to it
// ([Options].Elsewhere). While there is no leader, the request waits for the next one, up to Options.Wait. A
// transfer therefore costs no request.
//
//	                       this node leads
//	request ──────────────────────────────────────► handler, in AsLeader
//	   ▲  │                another node leads
//	   │  ├───────────────────────────────────────► refuse (503), redirect (307), forward
//	   │  │ there is no leader                          │ the leader was certainly not reached,
//	   └──┴─ wait, up to Options.Wait ◄─────────────────┘ or refused it
//
// A program that takes part in the election and is no node may lead too (see package leaderelection). It answers no
// requests, so all nodes refuse them until a node leads.
//
// # Refusals
//
// Every 503 of this package, and every UNAVAILABLE, guarantees that nothing has run. The request can be repeated
// on any node, whatever its effects. The response has [RefusedHeader] with one of the reasons, [LeaderHeader]
// with the leader's URL if known, Retry-After, and a body as defined in RFC 9457:
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
// If a load balancer repeats requests that were answered 503, the handler behind it must not answer 503 after it
// has begun to write; it can use 500 or 504. A 502 of this package means that a forwarded request may have been
// carried out.
//
// # Repeated requests
//
// A load balancer sends a refused request to the next node without a pause. Once all nodes have refused it, the
// load balancer should set [RetryHeader] for another pass. The header tells a node that the nodes before it
// pointed to a leader that refuses the request, or is dead. The node that is next in the queue then keeps the
// request until it leads; see deploy/nginx.
//
// # What is not promised
//
// A handler that runs past the end of its context runs while another node leads. Write in transactions of the
// term, or pass the token along for the store to check. This package does not make requests take effect once; the
// handler must ensure that, by an id in the request. The headers named here are accepted from every client. They
// can make a request wait, or keep it from being forwarded, and nothing more; a load balancer should drop them
// from clients' requests. X-Forwarded-For, -Host and -Proto are passed on as received, with this node's own
// values added, as is necessary behind a load balancer. They prove nothing.
package leaderonly
