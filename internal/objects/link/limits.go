package link

import (
	"time"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

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

	// linkWindow is how much of a link's replies is on its way without having been read: enough for 25 MB/s at 160 ms.
	// Streams have a connection of their own, and a small window: each may be left unread. connWindow is of all together,
	// and is opened again when bytes arrive.
	linkWindow   = 4 << 20
	streamWindow = 128 << 10
	connWindow   = 16 << 20

	// wideStreams limits the streams of this process's own to one address that have a window of wideWindow, on a
	// connection of their own: a stream alone is up to twice as fast with it. Further streams, and all that are
	// forwarded for callers from outside, have streamWindow.
	wideStreams = 4
	wideWindow  = 4 << 20

	// lanes is how many links there are at most to a node that is far, which is one that takes farFrom to answer: nodes
	// receive laneWindow of each, about (a quarter of their 256 KiB they give back late), and what is on its way beyond
	// that waits for a round trip. They share what may be in flight. Half of it is for wideLanes, on each of which a call
	// of any length passes by default.
	lanes      = 24
	wideLanes  = 4
	farFrom    = 10 * time.Millisecond
	laneWindow = 200 << 10

	// creditStep is how many bytes a link takes from the node's budget at a time, about. There may be thousands of links:
	// what they have in hand together is to be little beside the budget.
	creditStep = 32 << 10
	// unaskedReplies is how many bytes of replies may wait for a slow peer, about, when its connection holds more than it
	// may.
	unaskedReplies = 256 << 10
	// partIdle is how long parts of a call are held without a further one.
	partIdle = 30 * time.Second
	// expireEvery is how often that is looked after, and what a link has in hand and does not need.
	expireEvery = 5 * time.Second

	defaultMaxMessage = 4 << 20
	// defaultMaxInFlight is below what a node holds for one connection by default, if others hold little, so that calls
	// wait at home, where that is by deadline and in order, and are not refused.
	defaultMaxInFlight = 36 << 20
	defaultMaxHeld     = 512 << 20
	defaultMaxBuffered = 32 << 20
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
