// Package httpapi shows a node over HTTP: JSON about the cluster as the node sees
// it, probes for the supervisor of the process and for load balancers, and metrics
// for Prometheus.
//
//	GET /livez            the process runs: always 200
//	GET /readyz           200 while this node can be given work, with or without a leader; else 503
//	GET /readyz/reads     200 while reads can be answered from the view, also while etcd is away; says how old
//	                      the view is, and ?max_age=30s refuses an older one
//	GET /readyz/writes    200 while this node is ready and a leader is known
//	GET /leaderz          200 on the leader, else 503
//	GET /metrics          Prometheus
//	GET /cluster/status   this node's view: state, leader, queue, nodes
//	GET /cluster/leader   who leads, since when and until when; 503 without a leader
//	GET /cluster/shards   who owns which shards, open moves; 503 without a map, 404 with sharding off
//	GET /cluster/processors  the program's processors here: position, lag, errors
//	GET /cluster/objects  services, calls and times here; ?key=NAME: its objects; 404 for a Source without objects
//	GET /cluster/health   healthy or degraded, for dashboards
//
// Lists are never null, and an error is a JSON object with the field "error".
//
// # What is not promised
//
// An answer is what the node saw when it was asked: by the time it arrives another
// node may lead; what only the leader may answer is for package leaderonly. There is
// no authentication: listen where only those connect who may know, or put your own in front.
package httpapi
