package leaderelection

// Standing describes the state of one named election, as read from etcd or PostgreSQL.
type Standing struct {
	Name string `json:"name"`
	// Leader is the candidate that is first in the queue. It may not lead yet, while it waits for a former leader
	// that may not have noticed the loss of its lease. In PostgreSQL a candidate that does not lead yet is no leader.
	Leader Leader `json:"leader"`
	// Candidates lists the candidates, the leader first: all, or the first Query.Candidates of them.
	Candidates []Standby `json:"candidates"`
	// Length is the number of candidates, including the leader.
	Length int `json:"length"`
}

// Standby is one candidate in a named election.
type Standby struct {
	Address  string `json:"address"`
	Priority int    `json:"priority"`
	Member   bool   `json:"member"` // false for an outside candidate
}

// Query selects the elections that Elections.List of package cluster returns. The zero value selects all.
type Query struct {
	// After excludes elections up to this name, in List's order.
	After string
	// Limit is the maximum number of elections to return; 0 means no limit.
	Limit int
	// Candidates limits the candidates listed for each election; 0 lists all.
	Candidates int
}
