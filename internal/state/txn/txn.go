// Package txn represents the transactions of a node as values. A transaction has guards, operations for when
// they hold, and operations for when they do not. Commit sends one to etcd.
//
// A request may reach etcd long after its sender has given up. So every transaction that would do harm then
// carries a guard that stops it.
//
// Not promised: anything about the candidates' keys, which concurrency.Election writes by its own recipe. Nor
// does a failed Commit mean that the transaction was not committed, or will not be committed later.
package txn

// Txn is one transaction. It must not be changed once made.
type Txn struct {
	If   []Guard
	Then []Op // all of them, if every guard holds
	Else []Op // all of them, otherwise
}

// GuardField is the field of a key that a guard compares.
type GuardField int

// The fields. Both are 0 for a key that does not exist.
const (
	CreateRevision GuardField = iota
	ModRevision
)

// Guard is one comparison: Field of Key equals Revision. If End is not empty, that must hold for every key from Key
// to before End.
type Guard struct {
	Key, End string
	Field    GuardField
	Revision int64
}

// OpKind is the kind of an operation.
type OpKind int

// The kinds of operations.
const (
	Put    OpKind = iota // Key with Value on Lease
	Delete               // Key
	Get                  // Key
)

// Op is one operation on one key.
type Op struct {
	Kind  OpKind
	Key   string
	Value string
	Lease int64
}

// absent holds while key does not exist.
func absent(key string) Guard { return Guard{Key: key} }

// created holds while key exists as created at revision.
func created(key string, revision int64) Guard { return Guard{Key: key, Revision: revision} }

// unmodified holds while key is as written at revision.
func unmodified(key string, revision int64) Guard {
	return Guard{Key: key, Field: ModRevision, Revision: revision}
}
