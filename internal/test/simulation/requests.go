package simulation

import (
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/internal/state"
)

// kind is the kind of a request. Faults select requests by it.
type kind int

const (
	toRead    kind = iota
	toCompare      // the view with etcd
	toGrant
	toRenew
	toCheck // the read of a renewal's round
	toRevoke
	toMeasure
	toRegister
	toRecord
	toCampaign
	toLookAhead // a campaign's read of the candidates before it
	toLeave     // deletes the own candidate's key
	toChange    // the other requests to the own election keys
	toWrite     // under a term's fence
	toAccuse
	toRemove
	toRefute // or withdraws own accusations
	toAsk
	toPlan   // writes the shard map
	toReport // reports released shards
	toWatch
	toProgress // requests the progress of a watch
	toHear     // a response of a watch
	kinds
)

func (k kind) String() string {
	return [...]string{"read", "comparison", "grant", "renewal", "read of own keys", "revocation", "measurement",
		"registration", "record", "campaign", "look ahead", "leave", "change of own keys", "guarded write",
		"accusation", "removal", "refutation", "request", "shard map", "report", "watch", "progress of a watch",
		"report of a watch"}[k]
}

// kindOf returns the kind of a request of etcd's protocol.
func (w *world) kindOf(request any) kind {
	switch r := request.(type) {
	case *pb.RangeRequest:
		switch {
		case string(r.Key) == w.keys.RangeStart() && r.Limit == 0:
			return toRead
		case string(r.Key) == w.keys.RangeStart():
			return toCompare
		case strings.HasPrefix(string(r.Key), w.keys.Queue()):
			return toLookAhead
		}
		return toMeasure
	case *pb.LeaseGrantRequest:
		return toGrant
	case *pb.LeaseKeepAliveRequest, *pb.LeaseTimeToLiveRequest:
		return toRenew
	case *pb.LeaseRevokeRequest:
		return toRevoke
	case *pb.WatchRequest:
		if r.GetCreateRequest() == nil {
			return toProgress
		}
		return toWatch
	case *pb.WatchResponse:
		return toHear
	case *pb.TxnRequest:
		return w.kindOfTxn(r)
	}
	return toChange
}

func (w *world) kindOfTxn(r *pb.TxnRequest) kind {
	k := toCheck // it only reads
	for _, op := range r.Success {
		if op.GetRequestTxn() != nil {
			return toWrite // the fence wraps the user's transaction
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
			return toRemove
		case parsed.Kind == state.KindNode && creates(r, key):
			return toRegister
		case parsed.Kind == state.KindNode:
			return toRecord
		case parsed.Kind == state.KindAccusation && puts:
			return toAccuse
		case parsed.Kind == state.KindAccusation:
			k = toRefute
		case parsed.Kind == state.KindCandidate && !puts:
			k = toLeave
		case parsed.Kind == state.KindCandidate && creates(r, key):
			k = toCampaign
		case parsed.Kind == state.KindRequest:
			k = toAsk
		case parsed.Kind == state.KindShardMap:
			return toPlan
		case parsed.Kind == state.KindReleased:
			return toReport
		default:
			k = toChange
		}
	}
	return k
}

// creates reports whether a transaction requires that a key does not exist.
func creates(r *pb.TxnRequest, key string) bool {
	for _, c := range r.Compare {
		if string(c.Key) == key && c.Target == pb.Compare_CREATE && c.GetCreateRevision() == 0 {
			return true
		}
	}
	return false
}

// puts returns the first key of a kind that a transaction writes, and its value.
func (w *world) puts(r *pb.TxnRequest, kind state.Kind) (parsed state.ParsedKey, value []byte) {
	for _, op := range r.Success {
		if put := op.GetRequestPut(); put != nil {
			if parsed = w.keys.Parse(string(put.Key)); parsed.Kind == kind {
				return parsed, put.Value
			}
		}
	}
	return state.ParsedKey{}, nil
}

// deletes returns the first key of a kind that a transaction deletes.
func (w *world) deletes(r *pb.TxnRequest, kind state.Kind) state.ParsedKey {
	for _, op := range r.Success {
		if d := op.GetRequestDeleteRange(); d != nil {
			if parsed := w.keys.Parse(string(d.Key)); parsed.Kind == kind {
				return parsed
			}
		}
	}
	return state.ParsedKey{}
}

// touchesQueue reports whether a transaction would write or delete a candidate's key.
func (w *world) touchesQueue(r *pb.TxnRequest) bool {
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			key := op.GetRequestPut().GetKey()
			if d := op.GetRequestDeleteRange(); d != nil {
				key = d.Key
			}
			if strings.HasPrefix(string(key), w.keys.Queue()) {
				return true
			}
		}
	}
	return false
}
