package leaderelection

// Mode is the rule by which a leader is chosen.
type Mode string

// The modes.
const (
	// ModeElection chooses the candidate that queued first.
	ModeElection Mode = "election"
	// ModeFallback chooses the smallest address among the nodes with a failed election, while the election of the
	// cluster cannot work. Named elections have no fallback.
	ModeFallback Mode = "fallback"
)

// modeOf returns the mode of a leader that is an acting one or a candidate.
func modeOf(acting bool) Mode {
	if acting {
		return ModeFallback
	}
	return ModeElection
}

// Leader is the leader of an election. The zero Leader means that there is none.
type Leader struct {
	// Address is the leader's advertise address, "" if there is no leader.
	Address string `json:"address"`
	// Token is the fencing token of the leader's term: an etcd CreateRevision, which grows from term to term.
	Token int64 `json:"token"`
	// Mode is the rule by which the leader was chosen.
	Mode Mode `json:"mode"`
	// Member is false for an outside candidate: a program that queues with
	// concurrency.Election on the same prefix, or etcdctl elect.
	Member bool `json:"member"`
	// Lease is the id of the lease of the leading key, 0 if the key has none.
	Lease int64 `json:"lease"`
}
