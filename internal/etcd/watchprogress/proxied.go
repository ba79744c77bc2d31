package watchprogress

// ProxyState records whether a process's watches reach etcd directly or pass through a proxy such as `etcd
// grpc-proxy`. It is immutable; the zero value assumes no proxy.
//
// The proxy answers no requests for progress. It joins watches of the same range to one of its own, which may
// end for all of them without any notification.
type ProxyState struct {
	alone bool
	mute  int // watches in a row, perhaps the same one, that lacked nothing and yet reported no progress
}

// enoughMute is the number of mute watches after which no watch is expected to report progress.
const enoughMute = 2

// Alone reports whether the next watch needs a range that no other watch has.
func (y ProxyState) Alone() bool { return y.alone }

// Reports reports whether watches are expected to report progress on request.
func (y ProxyState) Reports() bool { return y.mute < enoughMute }

// Read returns the way after the range was read anew. The next watch may take another path, so it is tried
// again.
func (y ProxyState) Read() ProxyState {
	y.mute = min(y.mute, enoughMute-1)
	return y
}

// Reported returns the way after a watch has reported progress.
func (y ProxyState) Reported() ProxyState {
	y.mute = 0
	return y
}

// Unreported returns the way after a watch has reported no progress although it lacks nothing. It also reports
// whether to open another watch, because this one may be dead.
func (y ProxyState) Unreported() (ProxyState, bool) {
	y.alone, y.mute = true, min(y.mute+1, enoughMute)
	return y, y.Reports()
}

// Joined returns the way after a proxy has joined the watch to another one. It also reports whether to open
// another watch, one that the proxy cannot join.
func (y ProxyState) Joined() (ProxyState, bool) {
	again := !y.alone
	y.alone, y.mute = true, max(y.mute, enoughMute-1)
	return y, again
}
