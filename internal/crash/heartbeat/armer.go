package heartbeat

import "time"

// Armer arms the watchers of a member. The server of that member calls it, with each stream's own number, for a watcher
// that acknowledges heartbeats and has proved by its signature that it is the member with that instance id. The methods
// are safe for concurrent use, and must not block.
type Armer interface {
	// NextBeat returns the heartbeat to send to the watcher now, which may be an empty one, and the time until the one
	// after it. It is only called if the heartbeat will be sent, unless the stream breaks, and for the newest stream of a
	// process alone. If the heartbeat arms, the watcher counts as armed from before NextBeat returns.
	NextBeat(stream uint64, instance string) (b Beat, next time.Duration)
	// Acknowledged reports that the watcher has acknowledged a heartbeat on the stream. The number is as the watcher
	// sent it: it need not be that of a heartbeat sent on this stream.
	Acknowledged(stream, number uint64)
	// SaidGoodbye reports that the watcher has said goodbye on the stream: it accuses by no arming of that stream. It is
	// called once, after all other calls for the stream, and not at all for a stream that broke or was never passed to
	// NextBeat.
	SaidGoodbye(stream uint64)
	// RemovalReported reports that a watcher, armed or not, has named a revision of etcd at which or before which a silent
	// member was removed. On one stream the revisions grow. The watcher may be wrong.
	RemovalReported(revision int64)
}
