package watchprogress

// Way is what a process has found out about the way that its watches go: etcd itself, or a proxy
// like `etcd grpc-proxy`. It is immutable; the zero value knows nothing.
//
// The proxy answers no request for progress, and it joins watches of the same range to one, which
// may end for all of them without a word to any.
type Way struct {
	alone bool
	mute  int // watches in a row, one and the same perhaps, that lacked nothing and did not report that
}

// enoughMute is so many that no other watch is expected to report progress.
const enoughMute = 2

// Alone reports whether the next watch is to be of a range that no other watch has.
func (y Way) Alone() bool { return y.alone }

// Reports reports whether watches report progress when they are asked to, as far as is known.
func (y Way) Reports() bool { return y.mute < enoughMute }

// Read is the way after the range was read anew: what comes next may go another way.
func (y Way) Read() Way {
	y.mute = min(y.mute, enoughMute-1)
	return y
}

// Reported is the way after a watch has reported progress.
func (y Way) Reported() Way {
	y.mute = 0
	return y
}

// Unreported is the way after a watch has not reported progress, though it lacks nothing. It tells
// whether to open another watch, because this one may be dead.
func (y Way) Unreported() (Way, bool) {
	y.alone, y.mute = true, min(y.mute+1, enoughMute)
	return y, y.Reports()
}

// Joined is the way after a proxy has joined the watch to another one. It reports whether to open
// another watch, which cannot be.
func (y Way) Joined() (Way, bool) {
	again := !y.alone
	y.alone, y.mute = true, max(y.mute, enoughMute-1)
	return y, again
}
