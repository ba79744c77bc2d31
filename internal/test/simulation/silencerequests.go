package simulation

import (
	"net/url"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/schedule"
)

// silentKeys returns the prefix of the accusations of silence, with its slash.
func (w *world) silentKeys() string { return w.keys.Prefix() + "/accused-silent/" }

// parseSilentKey returns the accused address and the accuser of an accusation of silence; ok is false for other keys.
func (w *world) parseSilentKey(key string) (address, accuser string, ok bool) {
	rest, ok := strings.CutPrefix(key, w.silentKeys())
	if !ok {
		return "", "", false
	}
	a, b, ok := strings.Cut(rest, "/")
	address, err1 := url.PathUnescape(a)
	accuser, err2 := url.PathUnescape(b)
	return address, accuser, ok && err1 == nil && err2 == nil && b != ""
}

// kindOfSilenceTxn returns the kind of a transaction about accusations of silence; ok is false for any other one.
func (w *world) kindOfSilenceTxn(r *pb.TxnRequest) (k requestKind, ok bool) {
	if !schedule.Touches(r, w.silentKeys()) {
		return requestRefute, deletesRange(r, w.keys.Prefix()+"/nodes-accused/")
	}
	puts, ranges := false, false
	deletesOne, deletesAll := false, false
	for _, op := range r.Success {
		puts = puts || strings.HasPrefix(string(op.GetRequestPut().GetKey()), w.silentKeys())
		ranges = ranges || strings.HasPrefix(string(op.GetRequestRange().GetKey()), w.silentKeys())
		if d := op.GetRequestDeleteRange(); strings.HasPrefix(string(d.GetKey()), w.silentKeys()) {
			deletesOne, deletesAll = deletesOne || len(d.RangeEnd) == 0, deletesAll || len(d.RangeEnd) > 0
		}
	}
	switch {
	case puts:
		return requestAccuseSilent, true
	case w.findDelete(r, state.KindNode).Kind == state.KindNode:
		return requestRemoveSilent, true
	case deletesAll:
		return requestRefuteAll, true
	case deletesOne:
		return requestWithdrawSilent, true
	}
	return requestProofRead, ranges
}

// deletesRange reports whether a transaction deletes a range of keys with a prefix.
func deletesRange(r *pb.TxnRequest, prefix string) bool {
	return slices.ContainsFunc(r.Success, func(op *pb.RequestOp) bool {
		d := op.GetRequestDeleteRange()
		return len(d.GetRangeEnd()) > 0 && strings.HasPrefix(string(d.GetKey()), prefix)
	})
}

// findSilentPut returns the accused, the accuser and the value of the accusation of silence that a transaction writes.
func (w *world) findSilentPut(r *pb.TxnRequest) (address, accuser string, value []byte) {
	for _, op := range r.Success {
		if put := op.GetRequestPut(); put != nil {
			if address, accuser, ok := w.parseSilentKey(string(put.Key)); ok {
				return address, accuser, put.Value
			}
		}
	}
	return "", "", nil
}

// guardedRevision returns the CreateRevision that a transaction requires of a key, or 0 if it requires none.
func guardedRevision(r *pb.TxnRequest, key string) int64 {
	for _, c := range r.Compare {
		if string(c.Key) == key && c.Target == pb.Compare_CREATE && c.Result == pb.Compare_EQUAL {
			return c.GetCreateRevision()
		}
	}
	return 0
}

// guardsAccusation reports whether a transaction requires that an accusation of silence has stood since it was created.
func (w *world) guardsAccusation(r *pb.TxnRequest, address, accuser string) bool {
	for _, c := range r.Compare {
		if a, b, ok := w.parseSilentKey(string(c.Key)); ok && a == address && b == accuser &&
			c.Target == pb.Compare_CREATE && c.Result == pb.Compare_EQUAL && c.GetCreateRevision() > 0 {
			return true
		}
	}
	return false
}
