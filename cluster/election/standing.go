package election

// Standing is how one named election stands, as etcd has it.
type Standing struct {
	Name string
	// Leader is the candidate that came first. It may still wait for a former leader that may not know that its
	// lease is gone, before it leads.
	Leader Leader
	// Candidates are those that stand, the leader first: all, or the first Query.Candidates of them.
	Candidates []Standby
	// Length is how many stand, the leader included.
	Length int
}

// Standby is one that stands in a named election.
type Standby struct {
	Address  string
	Priority int
	Member   bool // false if it is no Goverse node
}

// Query says which elections Elections.List of package cluster is to find.
type Query struct {
	// After leaves out the elections up to that name, in List's order.
	After string
	// Limit is how many to find at most, from 1 up.
	Limit int
	// Candidates is how many of each to name at most; 0: all.
	Candidates int
}
