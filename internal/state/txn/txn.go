// Package txn holds the transactions of a node as values: what must hold, what is then
// done, and what else is read. Commit sends one to etcd.
//
// A request can reach etcd long after its sender gave it up. So every transaction that
// would do harm then carries the guard that stops it.
//
// Not promised: what concurrency.Election sends for a candidate's key, which is the
// recipe's own; and that a transaction whose Commit failed was not committed, or will
// not be committed later.
package txn

// Txn is one transaction. It is not altered once made.
type Txn struct {
	If   []Guard
	Then []Op // all of it, if every guard holds
	Else []Op // all of it, if one does not
}

// Field is what a guard looks at.
type Field int

// The fields. What does not exist has 0 in both.
const (
	CreateRevision Field = iota
	ModRevision
)

// Guard is one comparison: that Field of Key is Is, or if End is not empty, of
// every key from Key to before End.
type Guard struct {
	Key, End string
	Field    Field
	Is       int64
}

// Kind is what an operation does.
type Kind int

// The kinds of operations.
const (
	Put    Kind = iota // Key with Value on Lease
	Delete             // Key
	Get                // Key
)

// Op is one operation on one key.
type Op struct {
	Kind  Kind
	Key   string
	Value string
	Lease int64
}

// absent holds while key does not exist.
func absent(key string) Guard { return Guard{Key: key} }

// created holds while key is the one created at revision.
func created(key string, revision int64) Guard { return Guard{Key: key, Is: revision} }

// unmodified holds while key is as it was written at revision.
func unmodified(key string, revision int64) Guard {
	return Guard{Key: key, Field: ModRevision, Is: revision}
}
