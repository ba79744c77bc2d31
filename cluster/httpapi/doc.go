// Package httpapi serves a node's state over HTTP: JSON about the cluster as the node sees it, probes for the
// process's supervisor and for load balancers, and metrics for Prometheus. With Options.Admin it also accepts
// calls that change something.
//
//	GET /                 the dashboard, for people
//	GET /livez            the process runs: always 200
//	GET /readyz           200 while this node can be given work, with or without a leader; otherwise 503
//	GET /readyz/reads     200 while reads can be answered from the view, also while etcd is away; reports the age
//	                      of the view, and ?max_age=30s refuses an older one
//	GET /readyz/writes    200 while this node is ready and a leader is known
//	GET /leaderz          200 on the leader, otherwise 503
//	GET /metrics          Prometheus
//	GET /cluster/status   this node's view: state, leader, queue, nodes
//	GET /cluster/leader   the leader, when its term began and when its lease ends; 503 without a leader
//	GET /cluster/nodes    the registered nodes: state, health, shards, version, ...
//	GET /cluster/shards   the owners of the shards, open moves; 503 without a map, 404 with sharding off
//	GET /cluster/processors  the program's processors here: position, lag, errors
//	GET /cluster/processors/all  the processors of the whole cluster: position, pause, the leader's report
//	GET /cluster/processors/NAME/parked  the events that a processor gave up
//	GET /cluster/automations  the program's automations here: items done, failed and parked, errors
//	GET /cluster/objects  services, calls and times here; ?key=NAME: its objects; 404 for a Source without objects
//	GET /cluster/figures  services, processors and busy shards of the whole cluster, and samples of its last hour
//	GET /cluster/elections, /cluster/locks, /cluster/effects  those of the whole cluster, read from etcd
//	GET /cluster/events   the newest events of the cluster; ?limit=N&since=TIME&types=TYPE,TYPE
//	GET /cluster/events/stream  each event as it is recorded, as server-sent events
//	GET /cluster/stream   pages whenever they change, as server-sent events: ?page=/cluster/nodes&page=...
//	GET /cluster/health   healthy or degraded, for dashboards
//	GET /openapi.json     all of this, in OpenAPI 3.1
//	POST /cluster/admin/... resign, transfer, drain, undrain; elections, effects, processors: see docs/reference/http.md
//	POST /cluster/admin/check  answers a caller that may make admin calls, and changes nothing
//
// Lists are never null. Errors are problems of RFC 9457, application/problem+json; docs/reference/http.md lists their
// types. Lists from etcd are read once a second for all requests for the same list, and are paged with ?limit=
// and ?after=. Every response forbids browsers to keep, frame or interpret it.
//
// Admin calls are off unless Options.Admin is set. It authorizes them by a bearer token, a client certificate, or
// a check of the program's own. They accept only JSON, refuse pages of other origins, and each leaves a line in
// the log. Any node carries them out, because they are requests to the nodes concerned. A pause of a processor
// affects only this process.
//
// # What is not promised
//
// A response shows the node's view at the time of the request. By the time it arrives another node may lead; use
// package leaderonly for requests that only the leader may answer. Reading needs no authentication: listen where
// only permitted clients connect, or put authentication in front. A caller that may make one admin call may make
// all of them.
package httpapi
