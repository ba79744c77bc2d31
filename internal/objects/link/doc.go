// Package link carries unary calls to objects between two processes, many to a message: all calls from one process
// to an address share one gRPC stream, Objects.Link. A call is appended to what waits to be sent, and one goroutine
// sends what has come together while the message before was being sent. So a call that is alone is sent at
// once, and the more calls there are at a time, the less each of them costs. Replies travel back in the same way.
// To a node that is far there are further links, as soon as more is on its way than that node receives of one link
// without answering.
//
// Requests and responses of more than 256 KiB travel in parts, in turn with others: a large call does not hold up
// small ones. Where a peer reads slowly, those that send to it wait, and nobody else; memory is bounded on
// both sides.
//
// A call is started at most once by this package, and never sent a second time. The error of Pool.Call says
// whether it may have been started: ErrNotSent and ErrRefused say no, ErrLost says that nobody knows.
//
// Not promised: that calls of different sizes are handled in the order in which they were made (small ones overtake
// large ones); that a call is stopped at the other side when its context ends (the handler is
// notified, and that may come after its end); and that a peer which is silent, but whose connection stands, is
// noticed: give grpc.WithKeepaliveParams for that, or calls a deadline.
package link
