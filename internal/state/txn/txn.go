// Package txn represents the transactions of a node as values. A transaction has guards, operations for when
// they hold, and operations for when they do not. Commit sends one to etcd.
//
// A request may reach etcd long after its sender has given up. So every transaction that would do harm then
// carries a guard that stops it.
//
// Not promised: anything about the candidates' keys, which concurrency.Election writes by its own recipe. Nor
// does a failed Commit mean that the transaction was not committed, or will not be committed later.
package txn

import "strings"

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
	Delete               // Key, or the range
	Get                  // Key, or the range
	Count                // Key, or the range: only the number of keys
)

// Op is one operation on one key or, if End is not empty, on the range of keys from Key to before End. A Put has no
// range.
type Op struct {
	Kind     OpKind
	Key, End string
	Value    string
	Lease    int64
}

// onPrefix returns an operation on all keys that begin with prefix, which ends with a slash.
func onPrefix(kind OpKind, prefix string) Op {
	return Op{Kind: kind, Key: prefix, End: strings.TrimSuffix(prefix, "/") + "0"} // '0' follows '/'
}

// absent holds while key does not exist.
func absent(key string) Guard { return Guard{Key: key} }

// created holds while key exists as created at revision.
func created(key string, revision int64) Guard { return Guard{Key: key, Revision: revision} }

// unmodified holds while key is as written at revision.
func unmodified(key string, revision int64) Guard {
	return Guard{Key: key, Field: ModRevision, Revision: revision}
}
