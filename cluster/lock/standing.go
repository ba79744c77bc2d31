package lock

// Standing is how one lock stands, as etcd has it. Since when it is held is not in etcd: leases have no such
// time, and no clock of a holder's is asked.
type Standing struct {
	Name string
	// Shared: those that hold it share it.
	Shared bool
	// Holders are those that hold it, the first first: more than one only if it is shared, and no more than
	// Query.Holders.
	Holders []Holder
	// Length is how many hold it or wait for it.
	Length int
}

// Holder is one that holds a lock.
type Holder struct {
	// Owner is the node's advertise address, or what another process calls itself.
	Owner string
	// Token is the fencing token of the grant.
	Token int64
}

// Query says which locks Cluster.ListLocks of package cluster is to find.
type Query struct {
	// After leaves out the locks up to that name, in ListLocks' order.
	After string
	// Limit is how many to find at most, from 1 up.
	Limit int
	// Holders is how many of each to name at most; 0: all.
	Holders int
}
