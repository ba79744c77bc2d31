package simulation

import (
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/internal/state"
)

// requestKind is the kind of a request. Faults select requests by it.
type requestKind int

const (
	requestRead    requestKind = iota
	requestCompare             // the view with etcd
	requestGrant
	requestRenew
	requestRoundRead // the read of a renewal's round
	requestRevoke
	requestMeasure
	requestRegister
	requestRecord
	requestCampaign
	requestQueueRead      // a campaign's read of the candidates before it
	requestLeaveQueue     // deletes the own candidate's key
	requestElectionChange // the other requests to the own election keys
	requestGuardedWrite   // under a term's fence
	requestAccuse
	requestRemove
	requestRefute // or withdraws own accusations
	requestResign
	requestAccuseSilent   // accuses a member of silence
	requestWithdrawSilent // withdraws that
	requestRemoveSilent   // removes the member
	requestRefuteAll      // refutes the accusations of both kinds
	requestProofRead      // reads the own keys and the accusations against the member
	requestPlan           // writes the shard map
	requestReport         // reports released shards
	requestWatch
	requestProgress      // requests the progress of a watch
	requestWatchResponse // a response of a watch
	requestKinds
)

func (k requestKind) String() string {
	return [...]string{"read", "comparison", "grant", "renewal", "read of own keys", "revocation", "measurement",
		"registration", "record", "campaign", "look ahead", "leave", "change of own keys", "guarded write",
		"accusation", "removal", "refutation", "request", "accusation of silence", "withdrawal", "removal for silence",
		"refutation of all accusations", "read that proves", "shard map", "report", "watch", "progress of a watch",
		"report of a watch"}[k]
}

// kindOf returns the kind of a request of etcd's protocol.
func (w *world) kindOf(request any) requestKind {
	switch r := request.(type) {
	case *pb.RangeRequest:
		switch {
		case string(r.Key) == w.keys.RangeStart() && r.Limit == 0:
			return requestRead
		case string(r.Key) == w.keys.RangeStart():
			return requestCompare
		case strings.HasPrefix(string(r.Key), w.keys.Queue()):
			return requestQueueRead
		}
		return requestMeasure
	case *pb.LeaseGrantRequest:
		return requestGrant
	case *pb.LeaseKeepAliveRequest, *pb.LeaseTimeToLiveRequest:
		return requestRenew
	case *pb.LeaseRevokeRequest:
		return requestRevoke
	case *pb.WatchRequest:
		if r.GetCreateRequest() == nil {
			return requestProgress
		}
		return requestWatch
	case *pb.WatchResponse:
		return requestWatchResponse
	case *pb.TxnRequest:
		return w.kindOfTxn(r)
	}
	return requestElectionChange
}

func (w *world) kindOfTxn(r *pb.TxnRequest) requestKind {
	if k, ok := w.kindOfSilenceTxn(r); ok {
		return k
	}
	k := requestRoundRead // it only reads
	for _, op := range r.Success {
		if op.GetRequestTxn() != nil {
			return requestGuardedWrite // the fence wraps the user's transaction
		}
		key, puts := string(op.GetRequestPut().GetKey()), true
		if d := op.GetRequestDeleteRange(); d != nil {
			key, puts = string(d.Key), false
		}
		if key == "" {
			continue
		}
		switch parsed := w.keys.Parse(key); {
		case parsed.Kind == state.KindNode && !puts:
			return requestRemove
		case parsed.Kind == state.KindNode && requiresAbsent(r, key):
			return requestRegister
		case parsed.Kind == state.KindNode:
			return requestRecord
		case parsed.Kind == state.KindAccusation && puts:
			return requestAccuse
		case parsed.Kind == state.KindAccusation:
			k = requestRefute
		case parsed.Kind == state.KindCandidate && !puts:
			k = requestLeaveQueue
		case parsed.Kind == state.KindCandidate && requiresAbsent(r, key):
			k = requestCampaign
		case parsed.Kind == state.KindRequest:
			k = requestResign
		case parsed.Kind == state.KindShardMap:
			return requestPlan
		case parsed.Kind == state.KindReleased:
			return requestReport
		default:
			k = requestElectionChange
		}
	}
	return k
}

// requiresAbsent reports whether a transaction requires that a key does not exist.
func requiresAbsent(r *pb.TxnRequest, key string) bool {
	for _, c := range r.Compare {
		if string(c.Key) == key && c.Target == pb.Compare_CREATE && c.GetCreateRevision() == 0 {
			return true
		}
	}
	return false
}

// findPut returns the first key of a kind that a transaction writes, and its value.
func (w *world) findPut(r *pb.TxnRequest, kind state.KeyKind) (parsed state.ParsedKey, value []byte) {
	for _, op := range r.Success {
		if put := op.GetRequestPut(); put != nil {
			if parsed = w.keys.Parse(string(put.Key)); parsed.Kind == kind {
				return parsed, put.Value
			}
		}
	}
	return state.ParsedKey{}, nil
}

// findDelete returns the first key of a kind that a transaction deletes.
func (w *world) findDelete(r *pb.TxnRequest, kind state.KeyKind) state.ParsedKey {
	for _, op := range r.Success {
		if d := op.GetRequestDeleteRange(); d != nil {
			if parsed := w.keys.Parse(string(d.Key)); parsed.Kind == kind {
				return parsed
			}
		}
	}
	return state.ParsedKey{}
}
