package election

// StandOption changes how a node stands in a named election.
type StandOption func(*StandOptions)

// StandOptions are what the options of one call say.
type StandOptions struct {
	Priority *int // nil: as it was
}

// Priority has the node stand with that priority; 0 is what the others have. A candidate of a
// higher priority than the leader's is given the leadership once it has stood for
// Config.PreferAfter: those that wait before it queue again at the tail, then the leader gives
// way, as by Resign. Equal ones never take it from each other; so while a new priority is rolled
// out over all nodes it is handed over once at most. First come is not first served any more in
// this election, and in no other.
//
// A node that stands again with another priority queues anew, and gives way if it leads; without
// the option its priority stays as it was.
func Priority(n int) StandOption { return func(o *StandOptions) { o.Priority = &n } }
