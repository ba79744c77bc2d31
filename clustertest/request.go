package clustertest

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/clustertest/fault/etcdfault"
)

// Faults controls the faults between one node and etcd. See [etcdfault.Faults] for its methods.
type Faults = etcdfault.Faults

// Held is a request that HoldNext has caught, or will catch, on its way to etcd. See [etcdfault.Held].
type Held = etcdfault.Held

// Op is a kind of request to etcd.
type Op = etcdfault.Op

// Request describes one request of a node to etcd. See [etcdfault.Request].
type Request = etcdfault.Request

// Match reports whether a rule applies to a request.
type Match = etcdfault.Match

// The kinds of requests. OpWrite matches OpPut, OpDelete and OpTxn in rules.
const (
	OpGet       = etcdfault.OpGet
	OpPut       = etcdfault.OpPut
	OpDelete    = etcdfault.OpDelete
	OpTxn       = etcdfault.OpTxn
	OpGrant     = etcdfault.OpGrant
	OpKeepAlive = etcdfault.OpKeepAlive
	OpRevoke    = etcdfault.OpRevoke
	OpWrite     = etcdfault.OpWrite
)

// Getting returns a Match for requests that may read a key with this prefix.
func Getting(prefix string) Match { return etcdfault.Getting(prefix) }

// Putting returns a Match for requests that may write a key with this prefix.
func Putting(prefix string) Match { return etcdfault.Putting(prefix) }

// Deleting returns a Match for requests that may delete a key with this prefix.
func Deleting(prefix string) Match { return etcdfault.Deleting(prefix) }

// Inject puts faults between an etcd client and its users, for nodes in processes of their own that belong to no
// [Cluster]. See [etcdfault.Inject].
func Inject(client *clientv3.Client) *Faults { return etcdfault.Inject(client) }
