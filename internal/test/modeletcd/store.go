package modeletcd

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errNotModelled = status.Error(codes.Unimplemented, "not modelled")

// store holds the keys and their history since the last compaction. Its owner synchronizes access.
type store struct {
	revision  int64
	compacted int64
	keys      []*mvccpb.KeyValue // by key; returned values are never changed
	history   []*mvccpb.Event
	former    []*mvccpb.KeyValue // by event of the history: the key before it, nil if it did not exist

	granted func(lease int64) bool
	// changed is called for each change, with the key before it, nil if it did not exist.
	changed func(now *mvccpb.Event, before *mvccpb.KeyValue)
}

func (s *store) findKey(key []byte) (int, bool) {
	return slices.BinarySearchFunc(s.keys, key, func(kv *mvccpb.KeyValue, key []byte) int {
		return bytes.Compare(kv.Key, key)
	})
}

// keysInRange returns the keys from key up to, but not including, end. An empty end means key alone, and a zero byte
// all keys from key on.
func (s *store) keysInRange(key, end []byte) []*mvccpb.KeyValue {
	from, found := s.findKey(key)
	switch {
	case len(end) == 0 && !found:
		return nil
	case len(end) == 0:
		return s.keys[from : from+1]
	case len(end) == 1 && end[0] == 0:
		return s.keys[from:]
	}
	to, _ := s.findKey(end)
	return s.keys[from:max(from, to)]
}

func (s *store) readRange(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	kvs := slices.Clone(s.keysInRange(r.Key, r.RangeEnd))
	if r.Revision != 0 && r.Revision != s.revision {
		var err error
		if kvs, err = s.keysAtRevision(r); err != nil {
			return nil, err
		}
	}
	resp := &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: s.revision}, Count: int64(len(kvs))}
	if r.CountOnly {
		return resp, nil
	}
	kvs = slices.DeleteFunc(kvs, func(kv *mvccpb.KeyValue) bool { // the count is from before this filter
		return isOutside(kv.ModRevision, r.MinModRevision, r.MaxModRevision) ||
			isOutside(kv.CreateRevision, r.MinCreateRevision, r.MaxCreateRevision)
	})
	var by func(a, b *mvccpb.KeyValue) int
	switch {
	case r.SortTarget == pb.RangeRequest_KEY:
		by = func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) }
	case r.SortTarget == pb.RangeRequest_CREATE && r.SortOrder != pb.RangeRequest_NONE:
		by = func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) }
	case r.SortTarget == pb.RangeRequest_MOD && r.SortOrder != pb.RangeRequest_NONE:
		by = func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.ModRevision, b.ModRevision) }
	default:
		return nil, errNotModelled
	}
	slices.SortStableFunc(kvs, func(a, b *mvccpb.KeyValue) int {
		if r.SortOrder == pb.RangeRequest_DESCEND {
			a, b = b, a
		}
		return by(a, b)
	})
	if n := int(r.Limit); n > 0 && n < len(kvs) {
		kvs, resp.More = kvs[:n], true
	}
	if r.KeysOnly {
		for i, kv := range kvs {
			kvs[i] = &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision,
				ModRevision: kv.ModRevision, Version: kv.Version} // no lease, since 3.7
		}
	}
	resp.Kvs = kvs
	return resp, nil
}

// isOutside reports whether a revision is below the least or above the most; 0 means no bound.
func isOutside(revision, least, most int64) bool {
	return least != 0 && revision < least || most != 0 && revision > most
}

func (s *store) putKey(r *pb.PutRequest, revision int64) (*pb.PutResponse, error) {
	if r.PrevKv || r.IgnoreValue || r.IgnoreLease {
		return nil, errNotModelled
	}
	kv := &mvccpb.KeyValue{Key: r.Key, Value: r.Value, Lease: r.Lease, CreateRevision: revision, ModRevision: revision,
		Version: 1}
	i, there := s.findKey(r.Key)
	var before *mvccpb.KeyValue
	if there {
		before = s.keys[i]
		kv.CreateRevision, kv.Version = before.CreateRevision, before.Version+1
		s.keys[i] = kv
	} else {
		s.keys = slices.Insert(s.keys, i, kv)
	}
	s.appendEvent(&mvccpb.Event{Type: mvccpb.Event_PUT, Kv: kv}, before)
	return &pb.PutResponse{Header: &pb.ResponseHeader{Revision: s.revision}}, nil
}

func (s *store) removeRange(r *pb.DeleteRangeRequest, revision int64) (*pb.DeleteRangeResponse, error) {
	if r.PrevKv {
		return nil, errNotModelled
	}
	gone := slices.Clone(s.keysInRange(r.Key, r.RangeEnd))
	for _, kv := range gone {
		i, _ := s.findKey(kv.Key)
		s.keys = slices.Delete(s.keys, i, i+1)
		s.appendEvent(&mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: kv.Key, ModRevision: revision}}, kv)
	}
	return &pb.DeleteRangeResponse{Header: &pb.ResponseHeader{Revision: s.revision}, Deleted: int64(len(gone))}, nil
}

func (s *store) appendEvent(ev *mvccpb.Event, before *mvccpb.KeyValue) {
	s.revision = ev.Kv.ModRevision
	s.history, s.former = append(s.history, ev), append(s.former, before)
	if s.changed != nil {
		s.changed(ev, before)
	}
}

// executeTxn executes a transaction, or nothing of it.
func (s *store) executeTxn(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := checkKeys(r); err != nil {
		return nil, err
	}
	path := s.evaluateConditions(r, nil)
	if err := s.checkTxn(r, path, new(int)); err != nil {
		return nil, err
	}
	resp, err := s.executeBranch(r, path, new(int), s.revision+1)
	if err != nil {
		return nil, err
	}
	resp.Header = &pb.ResponseHeader{Revision: s.revision}
	return resp, nil
}

// evaluateConditions returns the results of the conditions of the transaction and of the inner ones on the branch
// taken, evaluated before anything is changed.
func (s *store) evaluateConditions(r *pb.TxnRequest, path []bool) []bool {
	held := !slices.ContainsFunc(r.Compare, func(c *pb.Compare) bool { return !s.conditionHolds(c) })
	path = append(path, held)
	for _, op := range takenBranch(r, held) {
		if inner := op.GetRequestTxn(); inner != nil {
			path = s.evaluateConditions(inner, path)
		}
	}
	return path
}

func takenBranch(r *pb.TxnRequest, held bool) []*pb.RequestOp {
	if held {
		return r.Success
	}
	return r.Failure
}

// checkTxn returns the error that prevents the transaction, or nil. at counts along the path.
func (s *store) checkTxn(r *pb.TxnRequest, path []bool, at *int) error {
	held := path[*at]
	*at++
	for _, op := range takenBranch(r, held) {
		var err error
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestPut:
			if lease := op.RequestPut.Lease; lease != 0 && !s.granted(lease) {
				err = rpctypes.ErrGRPCLeaseNotFound
			}
		case *pb.RequestOp_RequestRange:
			_, err = s.readRange(op.RequestRange)
		case *pb.RequestOp_RequestTxn:
			err = s.checkTxn(op.RequestTxn, path, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *store) executeBranch(r *pb.TxnRequest, path []bool, at *int, revision int64) (*pb.TxnResponse, error) {
	resp := &pb.TxnResponse{Succeeded: path[*at]}
	*at++
	for _, op := range takenBranch(r, resp.Succeeded) {
		answer := &pb.ResponseOp{}
		var err error
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			var a *pb.RangeResponse
			a, err = s.readRange(op.RequestRange)
			answer.Response = &pb.ResponseOp_ResponseRange{ResponseRange: a}
		case *pb.RequestOp_RequestPut:
			var a *pb.PutResponse
			a, err = s.putKey(op.RequestPut, revision)
			answer.Response = &pb.ResponseOp_ResponsePut{ResponsePut: a}
		case *pb.RequestOp_RequestDeleteRange:
			var a *pb.DeleteRangeResponse
			a, err = s.removeRange(op.RequestDeleteRange, revision)
			answer.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: a}
		case *pb.RequestOp_RequestTxn:
			var a *pb.TxnResponse
			a, err = s.executeBranch(op.RequestTxn, path, at, revision)
			answer.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: a}
		}
		if err != nil {
			return nil, err
		}
		resp.Responses = append(resp.Responses, answer)
	}
	return resp, nil
}

// conditionHolds reports whether all keys of the condition's range meet it. If there are none, it reports whether a key
// that was never written would.
func (s *store) conditionHolds(c *pb.Compare) bool {
	kvs := s.keysInRange(c.Key, c.RangeEnd)
	if len(kvs) == 0 {
		kvs = []*mvccpb.KeyValue{{}}
		if c.Target == pb.Compare_VALUE {
			return false
		}
	}
	return !slices.ContainsFunc(kvs, func(kv *mvccpb.KeyValue) bool { return !meetsCondition(c, kv) })
}

func meetsCondition(c *pb.Compare, kv *mvccpb.KeyValue) bool {
	var result int
	switch c.Target {
	case pb.Compare_VALUE:
		result = bytes.Compare(kv.Value, c.GetValue())
	case pb.Compare_CREATE:
		result = cmp.Compare(kv.CreateRevision, c.GetCreateRevision())
	case pb.Compare_MOD:
		result = cmp.Compare(kv.ModRevision, c.GetModRevision())
	case pb.Compare_VERSION:
		result = cmp.Compare(kv.Version, c.GetVersion())
	case pb.Compare_LEASE:
		result = cmp.Compare(kv.Lease, c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return result == 0
	case pb.Compare_NOT_EQUAL:
		return result != 0
	case pb.Compare_GREATER:
		return result > 0
	}
	return result < 0
}

// checkKeys refuses a transaction that might write a key twice, as etcd does.
func checkKeys(r *pb.TxnRequest) error {
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		if _, _, distinct := writtenKeys(ops); !distinct {
			return rpctypes.ErrGRPCDuplicateKey
		}
	}
	return nil
}

// writtenKeys returns the keys that the operations may put and the ranges that they may delete. distinct is false
// if a key is among them twice. As in etcd, a key that one inner transaction puts may be deleted by a later
// one.
func writtenKeys(ops []*pb.RequestOp) (puts map[string]bool, removals []*pb.DeleteRangeRequest, distinct bool) {
	puts = map[string]bool{}
	put := func(key string) bool {
		if puts[key] || slices.ContainsFunc(removals, func(r *pb.DeleteRangeRequest) bool { return rangeCovers(r, key) }) {
			return false
		}
		puts[key] = true
		return true
	}
	for _, op := range ops {
		if r := op.GetRequestDeleteRange(); r != nil {
			removals = append(removals, r)
		}
	}
	for _, op := range ops {
		inner := op.GetRequestTxn()
		if inner == nil {
			continue
		}
		either, eitherGone, ok := writtenKeys(inner.Success)
		or, orGone, alsoOK := writtenKeys(inner.Failure)
		if !ok || !alsoOK {
			return nil, nil, false
		}
		maps.Copy(either, or) // only one of them is executed
		for key := range either {
			if !put(key) {
				return nil, nil, false
			}
		}
		removals = slices.Concat(removals, eitherGone, orGone)
	}
	for _, op := range ops {
		if r := op.GetRequestPut(); r != nil && !put(string(r.Key)) {
			return nil, nil, false
		}
	}
	return puts, removals, true
}

// rangeCovers reports whether a request's range contains a key. A range up to the last key is not modelled.
func rangeCovers(r interface {
	GetKey() []byte
	GetRangeEnd() []byte
}, key string) bool {
	if len(r.GetRangeEnd()) == 0 {
		return string(r.GetKey()) == key
	}
	return string(r.GetKey()) <= key && key < string(r.GetRangeEnd())
}

// compact discards the history up to the revision.
func (s *store) compact(revision int64) error {
	switch {
	case revision <= s.compacted:
		return rpctypes.ErrGRPCCompacted
	case revision > s.revision:
		return rpctypes.ErrGRPCFutureRev
	}
	s.compacted = revision
	i := 0
	for i < len(s.history) && s.history[i].Kv.ModRevision <= revision {
		i++
	}
	s.history, s.former = slices.Clone(s.history[i:]), slices.Clone(s.former[i:])
	return nil
}

// keysAtRevision returns the keys of a range as they were at an earlier revision, by key.
func (s *store) keysAtRevision(r *pb.RangeRequest) ([]*mvccpb.KeyValue, error) {
	switch {
	case r.Revision < s.compacted:
		return nil, rpctypes.ErrGRPCCompacted
	case r.Revision > s.revision:
		return nil, rpctypes.ErrGRPCFutureRev
	}
	was := map[string]*mvccpb.KeyValue{}
	for _, kv := range s.keysInRange(r.Key, r.RangeEnd) {
		was[string(kv.Key)] = kv
	}
	for i := len(s.history) - 1; i >= 0 && s.history[i].Kv.ModRevision > r.Revision; i-- {
		switch key := string(s.history[i].Kv.Key); {
		case !rangeCovers(r, key):
		case s.former[i] == nil:
			delete(was, key)
		default:
			was[key] = s.former[i]
		}
	}
	kvs := slices.Collect(maps.Values(was))
	slices.SortFunc(kvs, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	return kvs, nil
}

// eventsBetween returns the events on the keys of a range between two revisions, inclusive. It returns false if some of
// them were compacted.
func (s *store) eventsBetween(r *pb.WatchCreateRequest, from, upTo int64) ([]*mvccpb.Event, bool) {
	if from <= s.compacted {
		return nil, false
	}
	var events []*mvccpb.Event
	for i := len(s.history) - 1; i >= 0 && s.history[i].Kv.ModRevision >= from; i-- {
		if ev := s.history[i]; ev.Kv.ModRevision <= upTo && rangeCovers(r, string(ev.Kv.Key)) {
			events = append(events, ev)
		}
	}
	slices.Reverse(events)
	return events, true
}
