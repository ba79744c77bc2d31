// Package link carries unary calls to objects between two processes, many calls to a message. All calls from
// one process to an address share one gRPC stream, Objects.Link. A call is appended to an outbox, and one
// goroutine sends all that has gathered there while it was sending the previous message. So a lone call is sent
// at once, and the more calls are made at a time, the less each of them costs. Replies travel back in the same
// way. To a distant node further links are opened once more bytes are in flight than that node receives on one
// link without answering.
//
// Requests and responses of more than 256 KiB travel in parts that alternate with other calls, so a large call
// does not delay small ones. If a peer reads slowly, only the callers that send to it wait. Memory is bounded
// on both sides.
//
// This package starts a call at most once and never sends it a second time. The error of Pool.Call tells
// whether the call may have been started: ErrNotSent and ErrRefused mean that it was not; ErrLost means that
// this is unknown.
//
// Not promised: an order among calls of different sizes, because small ones overtake large ones; that the other
// side stops a call when its context ends (the handler is notified, possibly after the call has ended); and
// that a silent peer is noticed while its connection stands (set grpc.WithKeepaliveParams, or give calls a
// deadline).
package link
