package link

import (
	"time"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

const (
	// partSize is the longest request or response that is sent in one piece, and the length of the parts of
	// longer ones.
	partSize = 256 << 10
	// messageSize is the approximate maximum size of a message. Together with the largest extra (maxExtra) a
	// message stays below the 4 MiB that gRPC accepts by default.
	messageSize = 1 << 20
	// maxExtra limits the size of a call without its request, and of a reply without its response.
	maxExtra = 1 << 20
	// sendParts limits the large calls or replies that are sent at a time. Further ones wait until one is
	// complete.
	sendParts = 16
	// recvParts limits the incomplete calls that are accepted at a time.
	recvParts = 64
	// frameOverhead is the approximate size of a call or reply on the wire without its variable fields.
	// callOverhead is the approximate size of a call in memory without them.
	frameOverhead = 48
	callOverhead  = 512

	// maxStreamMessage is the longest message that a link accepts, whatever the dial options say.
	maxStreamMessage = 4 << 20

	// linkWindow bounds the replies of a link that are in flight and unread; it allows 25 MB/s at 160 ms.
	// Streams have a connection of their own and the small streamWindow, because each of them may be left
	// unread. connWindow is for all streams of a connection together, and is replenished as bytes arrive.
	linkWindow   = 4 << 20
	streamWindow = 128 << 10
	connWindow   = 16 << 20

	// wideStreams limits the streams of this process's own to one address that have a window of wideWindow, on a
	// connection of their own: a stream alone is up to twice as fast with it. Further streams, and all that are
	// forwarded for callers from outside, have streamWindow.
	wideStreams = 4
	wideWindow  = 4 << 20

	// maxLanes limits the links to a distant node, which is one that takes at least farFrom to answer. A node
	// receives about laneWindow bytes of each link without a round trip: 256 KiB, of which a quarter is
	// acknowledged late. The links share the bytes that may be in flight. Half of these are for wideLanes of
	// them, each of which carries calls of any length by default.
	maxLanes   = 24
	wideLanes  = 4
	farFrom    = 10 * time.Millisecond
	laneWindow = 200 << 10

	// creditStep is the approximate number of bytes that a link takes from the node's budget at a time. It is
	// small because there may be thousands of links, and their unused credit together must stay small beside
	// the budget.
	creditStep = 32 << 10
	// unaskedReplies limits the bytes of replies that wait for a slow peer while its connection holds more than
	// it may.
	unaskedReplies = 256 << 10
	// partIdle is the time after which an incomplete call without a further part is dropped.
	partIdle = 30 * time.Second
	// expireEvery is the interval at which a link drops such calls and gives back unused credit.
	expireEvery = 5 * time.Second

	defaultMaxMessage = 4 << 20
	// defaultMaxInFlight is less than a node holds by default for one connection while others hold little. So
	// calls wait at the caller, in order and within their deadlines, and are not refused.
	defaultMaxInFlight = 36 << 20
	defaultMaxHeld     = 512 << 20
	defaultMaxBuffered = 32 << 20
)

// extraOfCall returns the approximate size of a call on the wire without its request.
func extraOfCall(c *objectspb.Call) int {
	return frameOverhead + len(c.Method) + len(c.Key) + 8*len(c.Chain) + headersSize(c.Metadata)
}

// extraOfReply returns the approximate size of a reply on the wire without its response.
func extraOfReply(r *objectspb.Reply) int {
	return frameOverhead + len(r.Status) + headersSize(r.Header) + headersSize(r.Trailer)
}

func headersSize(headers []*objectspb.Header) (n int) {
	for _, h := range headers {
		n += 16 + len(h.GetName()) + len(h.GetValue())
	}
	return n
}
