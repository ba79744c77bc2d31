// Package tracing traces calls of objects from hop to hop with spans of OpenTelemetry.
//
//	cfg := cluster.Config{ … }
//	tracing.Objects(&cfg.Objects, provider) // before NewClusterWithNode
//
// Each call has a span of its caller and, within it, a span of the object's node. Calls that the object makes
// have their spans within the latter. That applies to local, remote and forwarded calls alike, because the
// call's metadata carries the trace. By default it uses W3C's trace context and baggage; see [Propagator].
// Calls from outside continue the trace in their headers.
//
// The names of spans and attributes are OpenTelemetry's names for RPC: "package.Service/Method", rpc.system,
// rpc.service, rpc.method, rpc.grpc.status_code. Interceptors make the spans. They run within the interceptors
// that the configuration had before, and around those that are added later.
//
// # What is not promised
//
//   - There are no spans for events between the two: waiting in queues, waiting for shards that move, and calls
//     that are sent again. All of that is part of the caller's span.
//   - The object's key is not recorded, because it may be a person's name.
//
// Experimental: the API of this package may change in any minor release.
package tracing
