// Package tracing follows calls of objects from hop to hop, as spans of OpenTelemetry.
//
//	cfg := cluster.Config{ … }
//	tracing.Objects(&cfg.Objects, provider) // before NewClusterWithNode
//
// A call is a span of its caller, and a span within that one of the object's node; calls that the object makes are
// spans within that. It does not matter whether they are local, on another node or forwarded: what carries the trace is
// the call's metadata, by W3C's trace context and baggage unless another propagator is given. Calls from outside go on
// in the trace that their caller has put into the headers.
//
// The names of spans and attributes are OpenTelemetry's for RPC: "package.Service/Method", rpc.system, rpc.service,
// rpc.method, rpc.grpc.status_code. The spans are made by interceptors, so they lie within those that the
// configuration had before, and around those that are added later.
//
// # What is not promised
//
//   - Spans of what happens between the two: of waiting in queues and for shards that move, and of calls that are sent
//     anew. All of that is in the caller's span.
//   - The object's key: it may be a person's name.
package tracing
