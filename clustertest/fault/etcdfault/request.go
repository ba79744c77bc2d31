package etcdfault

import (
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Op is a kind of request to etcd.
type Op string

// The kinds of requests.
const (
	OpGet       Op = "get"
	OpPut       Op = "put"
	OpDelete    Op = "delete"
	OpTxn       Op = "txn"
	OpGrant     Op = "grant"
	OpKeepAlive Op = "keepalive"
	OpRevoke    Op = "revoke"
	opOther     Op = "other"

	// OpWrite matches OpPut, OpDelete and OpTxn in rules.
	OpWrite Op = "write"
)

// covers reports whether a rule for requests of kind o applies to requests of the given kind.
func (o Op) covers(kind Op) bool {
	return o == kind || o == OpWrite && (kind == OpPut || kind == OpDelete || kind == OpTxn)
}

// Request describes one request of a node to etcd, to the extent that rules examine it.
type Request struct {
	Op Op
	// Gets, Puts and Deletes list the keys that the request may read, write and delete. Those of a transaction
	// include the keys of both branches.
	Gets, Puts, Deletes []string
}

// Match reports whether a rule applies to a request.
type Match func(Request) bool

// Getting returns a Match for requests that may read a key with this prefix.
func Getting(prefix string) Match {
	return func(r Request) bool { return anyHasPrefix(r.Gets, prefix) }
}

// Putting returns a Match for requests that may write a key with this prefix.
func Putting(prefix string) Match {
	return func(r Request) bool { return anyHasPrefix(r.Puts, prefix) }
}

// Deleting returns a Match for requests that may delete a key with this prefix.
func Deleting(prefix string) Match {
	return func(r Request) bool { return anyHasPrefix(r.Deletes, prefix) }
}

func anyHasPrefix(keys []string, prefix string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, prefix) })
}

func opRequest(op clientv3.Op) Request {
	var r Request
	switch {
	case op.IsGet():
		r.Op = OpGet
	case op.IsPut():
		r.Op = OpPut
	case op.IsDelete():
		r.Op = OpDelete
	default:
		r.Op = OpTxn
	}
	r.addOp(op)
	return r
}

func txnRequest(then, els []clientv3.Op) Request {
	r := Request{Op: OpTxn}
	for _, op := range slices.Concat(then, els) {
		r.addOp(op)
	}
	return r
}

func (r *Request) addOp(op clientv3.Op) {
	switch {
	case op.IsGet():
		r.Gets = append(r.Gets, string(op.KeyBytes()))
	case op.IsPut():
		r.Puts = append(r.Puts, string(op.KeyBytes()))
	case op.IsDelete():
		r.Deletes = append(r.Deletes, string(op.KeyBytes()))
	case op.IsTxn():
		_, then, els := op.Txn()
		for _, inner := range slices.Concat(then, els) {
			r.addOp(inner)
		}
	}
}
