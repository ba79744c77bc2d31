package election

// Mode is the rule by which a leader is chosen.
type Mode string

// The modes.
const (
	// ModeElection: first come, first served.
	ModeElection Mode = "election"
	// ModeFallback: the election of the cluster cannot work, and the smallest address among the
	// nodes whose election failed leads. Named elections have no fallback.
	ModeFallback Mode = "fallback"
)

// Leader is the leader of an election. The zero Leader means that there is none.
type Leader struct {
	// Address is the leader's advertise address, "" when there is no leader.
	Address string
	// Token is the fencing token of its term: an etcd CreateRevision, which only grows from
	// term to term.
	Token int64
	// Mode is the rule by which it was chosen.
	Mode Mode
	// Member is false for an outside candidate: a program that queues with
	// concurrency.Election on the same prefix, or etcdctl elect.
	Member bool
	// Lease is the id of the lease that the leadership stands on, 0 if it stands on none.
	Lease int64
}
