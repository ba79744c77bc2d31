// Package httpapi shows a node over HTTP: JSON about the cluster as the node sees
// it, probes for the supervisor of the process, metrics for Prometheus, and a
// middleware that lets only the leader answer.
//
//	GET /                 the dashboard, for people
//	GET /livez            the process runs: always 200
//	GET /readyz           200 while this node can be given work, with or without a leader; else 503
//	GET /metrics          Prometheus
//	GET /cluster/status   this node's view: state, leader, queue, nodes
//	GET /cluster/leader   who leads, since when and until when; 503 without a leader
//	GET /cluster/shards   who owns which shards, open moves; 503 without a map, 404 with sharding off
//	GET /cluster/processors  the program's processors here: position, lag, errors
//	GET /cluster/objects  services, calls and times here; ?key=NAME: its objects; 404 for a Source without objects
//	GET /cluster/events   the newest events of the cluster; ?limit=N&since=TIME
//	GET /cluster/events/stream  each event as it is recorded, as server-sent events
//	GET /cluster/stream   pages whenever they change, as server-sent events: ?page=/cluster/nodes&page=...
//	GET /cluster/health   healthy or degraded, for dashboards
//	POST /cluster/admin/check  answers a caller that may make admin calls, and changes nothing
//
// Lists are never null, and an error is a JSON object with the field "error".
//
// # What is not promised
//
// An answer is what the node saw when it was asked: by the time it arrives another
// node may lead. LeaderOnly decides when a request comes in; a term may end while
// the request is served, so what must not happen after that belongs into a
// transaction of the term. There is no authentication: listen where only those
// connect who may know, or put your own in front.
package httpapi
