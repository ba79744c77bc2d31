package diagnosis

import (
	"time"

	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/state"
)

// Facts are what was seen. Nobody alters them once they are made.
type Facts struct {
	// Prefix, User and TTL are as a node would have them; User is "" for none.
	Prefix, User string
	TTL          time.Duration
	// Endpoints are those of --etcd, each looked at by itself.
	Endpoints []Endpoint
	// Certificates are those that were seen, and Now is when.
	Certificates []Certificate
	Now          time.Time
	// Members are etcd's own; nil if no endpoint named them.
	Members []Member
	// Unread is why nothing but the endpoints was looked at, "" if more was.
	Unread string
	// Access is what etcd lets the user do.
	Access []Access
	// Round is what became of a key of the doctor's own.
	Round Round
	// State is what the cluster's range holds; nil if it could not be read.
	State *State
	// Others are clusters under other prefixes.
	Others Others
	// Nodes are the registered ones, as they answered; in the order of State's members.
	Nodes []Node
	// NodesLeft is how many more there are that were not asked.
	NodesLeft int
	Leases    Leases
}

// FailureKind is why an endpoint is of no use.
type FailureKind int

// The kinds.
const (
	// Unreachable: it does not answer, or one side's certificate is refused.
	Unreachable FailureKind = iota
	// NotEtcd: another server does.
	NotEtcd
	// Denied: it refuses the user.
	Denied
)

// Failure is why an endpoint is of no use.
type Failure struct {
	Kind         FailureKind
	Says, Remedy string
}

// Endpoint is one address of etcd.
type Endpoint struct {
	Address string
	// Failure is nil if it answers as etcd does.
	Failure *Failure
	// Health is what its /health says is wrong; "" if nothing, or there is none.
	Health string
	// Status is what it says of itself, nil if it did not.
	Status *Status
	// Reads are how long linearizable reads took, and Writes the creation and revocation of a lease.
	Reads, Writes []time.Duration
	// ReadError and WriteError are why the first one failed, "" if none did.
	ReadError, WriteError string
	// RenewError is why a lease was not renewed, "" if it was, or none was granted.
	RenewError string
	// Granted is the TTL that it granted; 0 if it did not.
	Granted time.Duration
	Clock   *Clock
}

// Certificate is one that a file holds or a server shows.
type Certificate struct {
	// Of says whose it is: a file with its flag, or an address.
	Of                  string
	NotBefore, NotAfter time.Time
}

// served reports whether it answered linearizable reads, which takes a quorum.
func (e Endpoint) served() bool { return len(e.Reads) > 0 }

// Status is what a member of etcd says of itself.
type Status struct {
	Version          string
	MemberID, Leader uint64
	Learner          bool
	// Size is that of the database in bytes, InUse what of it holds data, and Quota its limit; 0: not known.
	Size, InUse, Quota int64
	// Errors are its alarms, and that it has no leader.
	Errors []string
}

// Member is one member of etcd.
type Member struct {
	ID      uint64
	Name    string
	Learner bool
	Clients []string // the addresses for clients
}

// Access is what etcd lets the user do in a range.
type Access struct {
	access.Range
	// NoRead and NoWatch: it refused that.
	NoRead, NoWatch bool
	// NoWrite are the parts where it refused a write.
	NoWrite []access.Part
	// Failed is why it could not be tried, "" if it could.
	Failed string
}

// Round is a key of the doctor's own: written on a lease, seen by a watch, deleted.
type Round struct {
	Tried bool
	// Written and Seen are how long it took until the write was acknowledged, and the watch showed it.
	Written, Seen time.Duration
	// Failed is why it did not work, "" if it did.
	Failed string
}

// State is what the cluster's range holds.
type State struct {
	Snapshot *state.Snapshot
	KVs      []state.KV
}

// Others are clusters in the same etcd.
type Others struct {
	// Prefixes are those below which there is a node, and how many keys of nodes were seen there.
	Prefixes []Prefix
	// Denied: the user may not look for them. More: not all keys were looked at.
	Denied, More bool
}

// Prefix is one of another cluster.
type Prefix struct {
	Prefix string
	Nodes  int
}

// Answer is what came of asking a node who it is.
type Answer int

// The answers.
const (
	Expected   Answer = iota // the process that is registered
	Another                  // another process
	Refused                  // nobody listens
	Silent                   // no answer, which proves nothing
	NotNode                  // another server
	Unresolved               // its name is unknown
)

// Node is a registered node as it was found from here.
type Node struct {
	Address string
	Answer  Answer
	// Instance is the id of the process that answered, Detail what was said where none did.
	Instance, Detail string
	// HTTP is nil if it serves none.
	HTTP *HTTP
}

// HTTP is a node's status over HTTP.
type HTTP struct {
	Address string
	// Failed is why there was no answer, "" if there was.
	Failed string
	// Untrusted: its certificate is of no authority that is trusted here.
	Untrusted bool
	// Ready is what /readyz says, and Watches and Watchers are of its crash detection; -1: it does not say.
	Ready             bool
	Watches, Watchers int
	Clock             *Clock
}

// Clock is how far another machine's clock is ahead of this one's, as certain as the date of an HTTP answer: between
// the two.
type Clock struct{ AtLeast, AtMost time.Duration }

// Leases are those that matter to the cluster.
type Leases struct {
	// Of are those that keys of the cluster's range are on.
	Of map[int64]Lease
	// Total is how many etcd has, and Empty how many of those that were looked at have no key; Total is -1 where
	// the user may not know.
	Total, Looked, Empty int
}

// Lease is one lease.
type Lease struct {
	// Left is for how long it goes on unless it is renewed.
	Left, Granted time.Duration
}
