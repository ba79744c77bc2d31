package link

import "github.com/goverse/goverse/proto/goverse/objects/v1"

const (
	// partSize is the longest request or response that travels in one piece, and the length of parts of longer ones.
	partSize = 256 << 10
	// messageSize is about how long a message becomes at most. With the longest extra below it stays under the
	// 4 MiB that gRPC accepts by default.
	messageSize = 1 << 20
	// maxExtra is how long everything in a call, or a reply, but the request or response may be.
	maxExtra = 1 << 20
	// sendParts is how many large calls or replies are sent at a time; further ones wait until one of them is
	// complete.
	sendParts = 16
	// recvParts is how many calls of which parts are missing are accepted at a time.
	recvParts = 64
	// frameOverhead is about what a call or reply takes on the wire beside its variable fields, and callOverhead
	// about what it takes in memory.
	frameOverhead = 48
	callOverhead  = 512

	// maxStreamMessage is the longest message of a stream that is accepted from it, whatever the dial options say.
	maxStreamMessage = 4 << 20

	// streamWindow and connWindow are a node's own, in package node, where their reason stands.
	streamWindow = 4 << 20
	connWindow   = 16 << 20

	defaultMaxMessage  = 4 << 20
	defaultMaxInFlight = 256 << 20
	// defaultMaxHeld is above the in-flight limit of callers, so that they wait at home, where that is by
	// deadline and in order, before the server stops reading.
	defaultMaxHeld     = 512 << 20
	defaultMaxBuffered = 64 << 20
)

// extraOfCall is about the size of a call on the wire without its request.
func extraOfCall(c *objectspb.Call) int {
	return frameOverhead + len(c.Method) + len(c.Key) + 8*len(c.Chain) + sizeOf(c.Metadata)
}

// extraOfReply is about the size of a reply on the wire without its response.
func extraOfReply(r *objectspb.Reply) int {
	return frameOverhead + len(r.Status) + sizeOf(r.Header) + sizeOf(r.Trailer)
}

func sizeOf(headers []*objectspb.Header) (n int) {
	for _, h := range headers {
		n += 16 + len(h.GetName()) + len(h.GetValue())
	}
	return n
}
