package diagnosis

import (
	"time"

	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/state"
)

// Facts holds everything that the doctor saw. It is not changed after it was gathered.
type Facts struct {
	// Prefix, User and TTL are the settings of a node; User is "" without a user.
	Prefix, User string
	TTL          time.Duration
	// Endpoints describes the endpoints of --etcd, each on its own.
	Endpoints []Endpoint
	// Certificates lists the certificates seen, and Now is the time they were seen.
	Certificates []Certificate
	Now          time.Time
	// Members lists the members of etcd; nil if no endpoint named them.
	Members []Member
	// Unread is the reason why only endpoints were examined, "" if more was.
	Unread string
	// Access holds the rights of the user in each range.
	Access []Access
	// KeyTest is the test with a key of the doctor's own.
	KeyTest KeyTest
	// State is the content of the cluster's range; nil if it could not be read.
	State *State
	// OtherClusters describes clusters under other prefixes.
	OtherClusters OtherClusters
	// Nodes holds the answers of registered nodes, in the order of State's members.
	Nodes []Node
	// NodesLeft is the number of nodes that were not asked.
	NodesLeft int
	Leases    LeaseFacts
}

// FailureKind classifies the failure of an endpoint.
type FailureKind int

// Kinds of failures.
const (
	// Unreachable means no answer, or that one side refuses the other's certificate.
	Unreachable FailureKind = iota
	// NotEtcd means that another server answers.
	NotEtcd
	// Denied means that etcd refuses the user.
	Denied
)

// Failure describes the reason why an endpoint cannot be used.
type Failure struct {
	Kind                FailureKind
	Description, Remedy string
}

// Endpoint is one address of etcd.
type Endpoint struct {
	Address string
	// Failure is nil if the endpoint answers as etcd does.
	Failure *Failure
	// Health is the problem that its /health reports; "" if none, or without an answer.
	Health string
	// Status is its status, nil if it did not answer.
	Status *Status
	// Reads holds the durations of linearizable reads; Writes holds those of creating and revoking leases.
	Reads, Writes []time.Duration
	// ReadError and WriteError are the errors of the first one that failed, "" if none did.
	ReadError, WriteError string
	// RenewError is the error of renewing a lease, "" if it was renewed or none was granted.
	RenewError string
	// Granted is the TTL of the lease that was granted; 0 without one.
	Granted time.Duration
	Clock   *Clock
}

// Certificate is a certificate in a file, or one that a server presents.
type Certificate struct {
	// Owner names its owner: a file with its flag, or an address.
	Owner               string
	NotBefore, NotAfter time.Time
}

// servedReads reports whether the endpoint answered linearizable reads, which requires a quorum.
func (e Endpoint) servedReads() bool { return len(e.Reads) > 0 }

// Status is the status that a member of etcd reports.
type Status struct {
	Version          string
	MemberID, Leader uint64
	Learner          bool
	// Size is the size of the database in bytes, InUse the part of it that holds data, and Quota its limit; 0
	// means unknown.
	Size, InUse, Quota int64
	// Errors lists its alarms, and the lack of a leader.
	Errors []string
}

// Member is one member of etcd.
type Member struct {
	ID      uint64
	Name    string
	Learner bool
	Clients []string // addresses for clients
}

// Access holds the rights of the user in one range.
type Access struct {
	access.Range
	// NoRead and NoWatch report that etcd refused a read or a watch.
	NoRead, NoWatch bool
	// NoWrite lists the parts where etcd refused a write.
	NoWrite []access.Part
	// Failed is the reason why the rights could not be tested, "" if they were.
	Failed string
}

// KeyTest is the test with a key of the doctor's own: write it on a lease, see it in a watch, delete it.
type KeyTest struct {
	Tried bool
	// Written is the time until the write was acknowledged, and Seen the time until the watch showed it.
	Written, Seen time.Duration
	// Failed is the reason why the test failed, "" if it did not.
	Failed string
}

// State is the content of the cluster's range.
type State struct {
	Snapshot *state.Snapshot
	KVs      []state.KV
}

// OtherClusters describes other clusters in the same etcd.
type OtherClusters struct {
	// Prefixes lists the prefixes that have nodes.
	Prefixes []ClusterPrefix
	// Denied reports that the user may not search for other clusters. More reports that not all keys were
	// searched.
	Denied, More bool
}

// ClusterPrefix is the prefix of another cluster, with the number of keys of nodes seen under it.
type ClusterPrefix struct {
	Prefix string
	Nodes  int
}

// AnswerKind classifies the answer of a node to a request for its identity.
type AnswerKind int

// Kinds of answers.
const (
	Expected   AnswerKind = iota // from the process that is registered
	Another                      // from another process
	Refused                      // no process listens
	Silent                       // no answer, which proves nothing
	NotNode                      // from another server
	Unresolved                   // the host name is unknown
)

// Node holds the answers of one registered node.
type Node struct {
	Address    string
	AnswerKind AnswerKind
	// Instance is the id of the process that answered. Detail is the error if none did.
	Instance, Detail string
	// HTTP is nil if the node does not serve it.
	HTTP *HTTPStatus
}

// HTTPStatus is the status of a node over HTTP.
type HTTPStatus struct {
	Address string
	// Failed is the reason why there was no answer, "" if there was one.
	Failed string
	// Untrusted reports that no authority trusted here signed its certificate.
	Untrusted bool
	// Ready is the answer of /readyz. Watches and Watchers are numbers of its crash detection; -1 means
	// unknown.
	Ready             bool
	Watches, Watchers int
	// SilenceTimeout is its own; 0 means none or unknown.
	SilenceTimeout time.Duration
	Clock          *Clock
}

// Clock bounds the lead of another machine's clock over this one's, as exactly as the date of an HTTP answer
// allows.
type Clock struct{ AtLeast, AtMost time.Duration }

// LeaseFacts describes the leases that matter to the cluster.
type LeaseFacts struct {
	// ByID holds the leases that keys of the cluster's range are on, by id.
	ByID map[int64]Lease
	// Total is the number of leases in etcd, or -1 if the user may not see it. Examined is the number of other
	// leases that were read, and Empty the number of those without a key.
	Total, Examined, Empty int
}

// Lease holds the times of one lease.
type Lease struct {
	// Left is the remaining time unless the lease is renewed. Granted is its TTL.
	Left, Granted time.Duration
}
