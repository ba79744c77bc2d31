package heartbeat

import "github.com/goverse/goverse/internal/etcd/deadline"

// Beat is a heartbeat by which a member arms one of its watchers: from then on that watcher may accuse the member of
// silence. An empty heartbeat arms nothing. The zero value is an empty heartbeat.
type Beat struct {
	// Number is the number of the heartbeat, greater than those of all earlier ones that the process sent. It is 0 for
	// an empty one.
	Number uint64
	// Arming is the number of the arming, which is that of the stream: greater than those of all earlier streams to the
	// process.
	Arming uint64
	// Watched and Watcher are the incarnations of the two members.
	Watched, Watcher int64
	// Times are the times for which the member relies on its proofs.
	Times deadline.ProofTimes
	// Heard is the greatest number of a heartbeat on this stream that the member knows to be acknowledged.
	Heard uint64
}

// Arms reports whether the heartbeat arms its receiver.
func (b Beat) Arms() bool { return b.Number != 0 }
