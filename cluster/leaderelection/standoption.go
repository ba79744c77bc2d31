package leaderelection

// StandOption configures a node's candidacy in a named election.
type StandOption func(*StandOptions)

// StandOptions holds the options of one call.
type StandOptions struct {
	Priority *int // nil leaves it unchanged
}

// Priority sets the candidate's priority; the default is 0. A candidate of a higher priority than the leader's
// becomes the leader once it has waited for Config.PreferAfter: the candidates before it queue again at the tail,
// then the leader gives way as with Resign. Candidates of equal priority never replace each other, so the rollout
// of a new priority to all nodes causes at most one handover. Priorities replace first come, first served in this
// election, and in no other.
//
// A node that stands again with another priority queues again at the tail, and gives way if it leads. Without the
// option its priority stays the same.
func Priority(n int) StandOption { return func(o *StandOptions) { o.Priority = &n } }
