package watchprogress

// ProxyState records whether a process's watches reach etcd directly or pass through a proxy such as `etcd
// grpc-proxy`. It is immutable; the zero value assumes no proxy.
//
// The proxy answers no requests for progress. It joins watches of the same range to one of its own, which may
// end for all of them without any notification.
type ProxyState struct {
	ownRange        bool
	withoutProgress int // watches in a row, perhaps the same one, that lacked nothing and yet reported no progress
}

// maxWithoutProgress is the number of mute watches after which no watch is expected to report progress.
const maxWithoutProgress = 2

// NeedsOwnRange reports whether the next watch needs a range that no other watch has.
func (y ProxyState) NeedsOwnRange() bool { return y.ownRange }

// ExpectsProgress reports whether watches are expected to report progress on request.
func (y ProxyState) ExpectsProgress() bool { return y.withoutProgress < maxWithoutProgress }

// OnRead returns the state after the range was read anew. The next watch may take another path, so it is tried
// again.
func (y ProxyState) OnRead() ProxyState {
	y.withoutProgress = min(y.withoutProgress, maxWithoutProgress-1)
	return y
}

// OnProgress returns the state after a watch has reported progress.
func (y ProxyState) OnProgress() ProxyState {
	y.withoutProgress = 0
	return y
}

// OnNoProgress returns the state after a watch has reported no progress although it lacks nothing. It also reports
// whether to open another watch, because this one may be dead.
func (y ProxyState) OnNoProgress() (ProxyState, bool) {
	y.ownRange, y.withoutProgress = true, min(y.withoutProgress+1, maxWithoutProgress)
	return y, y.ExpectsProgress()
}

// OnJoined returns the state after a proxy has joined the watch to another one. It also reports whether to open
// another watch, one that the proxy cannot join.
func (y ProxyState) OnJoined() (ProxyState, bool) {
	again := !y.ownRange
	y.ownRange, y.withoutProgress = true, max(y.withoutProgress, maxWithoutProgress-1)
	return y, again
}
