package lifecycle

import "errors"

// Errors of elections; see the errors of the same names in package leaderelection.
var (
	ErrNoLeader     = errors.New("there is no leader at the moment")
	ErrKeyLost      = errors.New("its key in etcd is gone, and this process did not delete it")
	ErrNotMember    = errors.New("no such member; the members are shown by: goversed nodes")
	ErrNotCandidate = errors.New("it does not stand in the election")
	ErrOutsider     = errors.New("a program that is no Goverse node leads, or stands before it, and does not give way")
	ErrPreferred    = errors.New("another candidate has a higher priority and would take it back; alter the priorities")
	ErrFallback     = errors.New("the cluster is in fallback, where the smallest address leads; " +
		"repair the election first: goversed status shows why it fails")
	ErrWorkRuns = errors.New("functions that run as leader go on, although their context ended WorkTimeout ago; have " +
		"them return when it ends")
	ErrNotMoved = errors.New("the leadership was not handed over in time")
)
