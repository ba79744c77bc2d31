// Package httpapi shows a node over HTTP: JSON about the cluster as the node sees
// it, probes for the supervisor of the process and for load balancers, and metrics
// for Prometheus. Where it is said who may, it changes things, too.
//
//	GET /                 the dashboard, for people
//	GET /livez            the process runs: always 200
//	GET /readyz           200 while this node can be given work, with or without a leader; else 503
//	GET /readyz/reads     200 while reads can be answered from the view, also while etcd is away; says how old
//	                      the view is, and ?max_age=30s refuses an older one
//	GET /readyz/writes    200 while this node is ready and a leader is known
//	GET /leaderz          200 on the leader, else 503
//	GET /metrics          Prometheus
//	GET /cluster/status   this node's view: state, leader, queue, nodes
//	GET /cluster/leader   who leads, since when and until when; 503 without a leader
//	GET /cluster/nodes    the registered nodes: state, health, shards, version, ...
//	GET /cluster/shards   who owns which shards, open moves; 503 without a map, 404 with sharding off
//	GET /cluster/processors  the program's processors here: position, lag, errors
//	GET /cluster/objects  services, calls and times here; ?key=NAME: its objects; 404 for a Source without objects
//	GET /cluster/elections, /cluster/locks, /cluster/effects  those of the whole cluster, read from etcd
//	GET /cluster/events   the newest events of the cluster; ?limit=N&since=TIME
//	GET /cluster/events/stream  each event as it is recorded, as server-sent events
//	GET /cluster/stream   pages whenever they change, as server-sent events: ?page=/cluster/nodes&page=...
//	GET /cluster/health   healthy or degraded, for dashboards
//	GET /openapi.json     all of this, in OpenAPI 3.1
//	POST /cluster/admin/... resign, transfer, drain, undrain; elections, effects, processors: see docs/http.md
//	POST /cluster/admin/check  answers a caller that may make admin calls, and changes nothing
//
// Lists are never null. An error is a problem of RFC 9457, application/problem+json; docs/http.md has the types. Lists
// from etcd are read once a second for all that ask the same, and are paged with ?limit= and ?after=. Every answer
// forbids browsers to keep, frame or interpret it.
//
// Admin calls are off until Options.Admin says who may make them: with a bearer token, a client certificate, or by a
// check of the program's own. They take JSON only, from no page of another origin, and each leaves a line in the log.
// Any node carries them out, for they are requests to the nodes concerned; a pause of a processor is of this process.
//
// # What is not promised
//
// An answer is what the node saw when it was asked: by the time it arrives another
// node may lead; what only the leader may answer is for package leaderonly. Reading
// needs no authentication: listen where only those connect who may know, or put your
// own in front. Who may make one admin call may make all of them.
package httpapi
