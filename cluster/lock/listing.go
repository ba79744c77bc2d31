package lock

// Standing describes the state of one lock, as read from etcd. It has no time of acquisition: leases have none,
// and the holders' clocks are not used.
type Standing struct {
	Name string `json:"name"`
	// Shared reports whether the holders share the lock.
	Shared bool `json:"shared"`
	// Holders lists the holders, the first one first: more than one only if the lock is shared, and at most
	// Query.Holders.
	Holders []Holder `json:"holders"`
	// Length is the number of holders and waiting callers.
	Length int `json:"length"`
}

// Holder is one holder of a lock.
type Holder struct {
	// Owner is the node's advertise address, or the name that another process gave itself.
	Owner string `json:"owner"`
	// Token is the fencing token of the grant.
	Token int64 `json:"token"`
}

// Query selects the locks that Locks.List of package cluster returns. The zero value selects all.
type Query struct {
	// After excludes locks up to this name, in List's order.
	After string
	// Limit is the maximum number of locks to return; 0 means no limit.
	Limit int
	// Holders limits the holders listed for each lock; 0 lists all.
	Holders int
}
