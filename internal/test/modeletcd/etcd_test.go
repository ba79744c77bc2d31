package modeletcd

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/internal/test/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// requestSource draws requests. It identifies leases by their place in the order of grants, because etcd's ids and the
// model's differ.
type requestSource struct {
	*rand.Rand
	revision    int64 // etcd's
	leases      [][2]int64
	errorCounts map[string]int // number of etcd's errors, by text
}

const ttl = 1000

func (a *requestSource) drawKey() []byte {
	return fmt.Appendf(nil, "k/%c/%d", 'a'+a.IntN(3), a.IntN(4))
}

// drawRange draws one key, or a range of keys.
func (a *requestSource) drawRange() (key, end []byte) {
	switch a.IntN(4) {
	case 0:
		key = []byte("k/")
	case 1:
		key = a.drawKey()[:4]
	case 2:
		return a.drawKey(), a.drawKey() // the end may be before the start
	default:
		return a.drawKey(), nil
	}
	return key, []byte(clientv3.GetPrefixRangeEnd(string(key)))
}

// drawLease draws no lease, a granted one, or one that never existed.
func (a *requestSource) drawLease() int {
	if a.IntN(3) > 0 || len(a.leases) == 0 {
		return -1
	}
	return a.IntN(len(a.leases) + 1)
}

func (a *requestSource) leaseID(lease, of int) int64 {
	switch {
	case lease < 0:
		return 0
	case lease == len(a.leases):
		return 4711
	}
	return a.leases[lease][of]
}

func (a *requestSource) drawOperation(depth int) func(of int) *pb.RequestOp {
	switch n := a.IntN(9); {
	case n < 3:
		key, value, lease := a.drawKey(), fmt.Append(nil, a.IntN(5)), a.drawLease()
		return func(of int) *pb.RequestOp {
			return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value,
				Lease: a.leaseID(lease, of)}}}
		}
	case n < 5:
		key, end := a.drawRange()
		r := &pb.DeleteRangeRequest{Key: key, RangeEnd: end}
		return func(int) *pb.RequestOp {
			return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r}}
		}
	case n < 8 || depth == 0:
		r := a.drawRead()
		return func(int) *pb.RequestOp { return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}} }
	default:
		r := a.drawTxn(depth - 1)
		return func(of int) *pb.RequestOp {
			return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r(of)}}
		}
	}
}

func (a *requestSource) drawRead() *pb.RangeRequest {
	key, end := a.drawRange()
	r := &pb.RangeRequest{Key: key, RangeEnd: end, Limit: int64(max(0, a.IntN(6)-2)), KeysOnly: a.IntN(4) == 0,
		CountOnly: a.IntN(4) == 0,
		SortOrder: pb.RangeRequest_SortOrder(a.IntN(3))}
	for _, bound := range []*int64{&r.MinModRevision, &r.MaxModRevision, &r.MinCreateRevision, &r.MaxCreateRevision} {
		if a.IntN(8) == 0 {
			*bound = max(0, a.revision-int64(a.IntN(30)))
		}
	}
	if r.SortOrder != pb.RangeRequest_NONE && a.IntN(2) == 0 {
		r.SortTarget = pb.RangeRequest_CREATE + pb.RangeRequest_SortTarget(a.IntN(2)) // or MOD
	}
	return r
}

func (a *requestSource) drawCondition() func(of int) *pb.Compare {
	key, end := a.drawRange()
	result := pb.Compare_CompareResult(a.IntN(4))
	number, lease, value := max(0, a.revision-int64(a.IntN(8))), a.drawLease(), fmt.Append(nil, a.IntN(5))
	n := a.IntN(5)
	return func(of int) *pb.Compare {
		c := &pb.Compare{Key: key, RangeEnd: end, Result: result}
		switch n {
		case 0:
			c.Target, c.TargetUnion = pb.Compare_CREATE, &pb.Compare_CreateRevision{CreateRevision: number}
		case 1:
			c.Target, c.TargetUnion = pb.Compare_MOD, &pb.Compare_ModRevision{ModRevision: number}
		case 2:
			c.Target, c.TargetUnion = pb.Compare_VERSION, &pb.Compare_Version{Version: number % 3}
		case 3:
			c.Target, c.TargetUnion = pb.Compare_VALUE, &pb.Compare_Value{Value: value}
		default:
			// Lease ids can only be compared for equality.
			c.Target, c.Result, c.TargetUnion = pb.Compare_LEASE, pb.Compare_EQUAL,
				&pb.Compare_Lease{Lease: a.leaseID(lease, of)}
		}
		return c
	}
}

func (a *requestSource) drawTxn(depth int) func(of int) *pb.TxnRequest {
	var conditions []func(int) *pb.Compare
	for range a.IntN(3) {
		conditions = append(conditions, a.drawCondition())
	}
	operations := func(n int) (ops []func(int) *pb.RequestOp) {
		if a.IntN(12) == 0 {
			n = 50 // nested in each other they are too many
		}
		for range n {
			ops = append(ops, a.drawOperation(depth))
		}
		return ops
	}
	success, failure := operations(a.IntN(4)), operations(a.IntN(3))
	return func(of int) *pb.TxnRequest {
		r := &pb.TxnRequest{}
		for _, c := range conditions {
			r.Compare = append(r.Compare, c(of))
		}
		for _, op := range success {
			r.Success = append(r.Success, op(of))
		}
		for _, op := range failure {
			r.Failure = append(r.Failure, op(of))
		}
		return r
	}
}

// etcdServices are etcd's services, of the model or of etcd itself.
type etcdServices struct {
	pb.KVClient
	pb.LeaseClient
}

// formatAnswer returns an answer or error as text, without the parts that necessarily differ.
func (a *requestSource) formatAnswer(of int, resp proto.Message, err error) string {
	if err != nil {
		return rpctypes.Error(err).Error()
	}
	resp = proto.Clone(resp)
	switch r := resp.(type) {
	case *pb.TxnResponse:
		revision := r.Header.Revision
		a.stripTxnResponse(of, r)
		r.Header = &pb.ResponseHeader{Revision: revision}
	case *pb.RangeResponse:
		r.Header = &pb.ResponseHeader{Revision: r.Header.Revision}
		a.replaceLeases(of, r)
	case *pb.LeaseTimeToLiveResponse:
		r.Header, r.ID, r.TTL = nil, 0, min(r.TTL, 0)
		slices.SortFunc(r.Keys, bytes.Compare) // etcd returns them in no particular order
	case *pb.LeaseGrantResponse:
		r.Header, r.ID = nil, 0
	case *pb.LeaseRevokeResponse:
		r.Header = &pb.ResponseHeader{Revision: r.Header.Revision}
	}
	return prototext.MarshalOptions{Multiline: true}.Format(resp)
}

func (a *requestSource) stripTxnResponse(of int, r *pb.TxnResponse) {
	r.Header = nil
	for _, op := range r.Responses {
		switch op := op.Response.(type) {
		case *pb.ResponseOp_ResponseRange:
			op.ResponseRange.Header = nil
			a.replaceLeases(of, op.ResponseRange)
		case *pb.ResponseOp_ResponsePut:
			op.ResponsePut.Header = nil
		case *pb.ResponseOp_ResponseDeleteRange:
			op.ResponseDeleteRange.Header = nil
		case *pb.ResponseOp_ResponseTxn:
			a.stripTxnResponse(of, op.ResponseTxn)
		}
	}
}

// replaceLeases replaces lease ids by their place.
func (a *requestSource) replaceLeases(of int, r *pb.RangeResponse) {
	for _, kv := range r.Kvs {
		for i, l := range a.leases {
			if l[of] == kv.Lease {
				kv.Lease = int64(i)
			}
		}
	}
}

// TestAnswersAsEtcdDoes checks that the model gives the same answers as etcd to all requests, and the same
// events to a watch.
func TestAnswersAsEtcdDoes(t *testing.T) {
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	defer cancel()
	server, err := etcdtest.StartWith(ctx, etcdtest.Config{})
	require.NoError(t, err)
	defer func() { _ = server.Close() }()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()

	model := New()
	defer model.Close()
	conn := model.Connect("", func(any) Delivery { return Delivery{} })
	both := [2]etcdServices{{kvService{c: conn}, leaseService{c: conn}}, {pb.NewKVClient(client.ActiveConnection()),
		pb.NewLeaseClient(client.ActiveConnection())}}
	watches := [2]clientv3.WatchChan{
		conn.Client().Watch(ctx, "k/", clientv3.WithPrefix(), clientv3.WithCreatedNotify()),
		client.Watch(ctx, "k/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())}
	for _, watch := range watches {
		require.True(t, (<-watch).Created)
	}

	seed := uint64(1)
	a := &requestSource{Rand: rand.New(rand.NewPCG(seed, 1)), revision: 1, errorCounts: map[string]int{}}
	ask := func(what string, request func(of int, s etcdServices) (proto.Message, error)) {
		t.Helper()
		var said [2]string
		for of, s := range both {
			resp, err := request(of, s)
			if said[of] = a.formatAnswer(of, resp, err); err != nil {
				a.errorCounts[said[of]]++
			}
		}
		require.Equal(t, said[1], said[0], "seed %d, at revision %d: %s", seed, a.revision, what)
	}
	for range 3000 {
		switch n := a.IntN(20); {
		case n == 0 && len(a.leases) < 40:
			var ids [2]int64
			ask("grant", func(of int, s etcdServices) (proto.Message, error) {
				resp, err := s.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: ttl})
				ids[of] = resp.GetID()
				return resp, err
			})
			a.leases = append(a.leases, ids)
		case n == 1:
			l := a.drawLease()
			ask("revoke", func(of int, s etcdServices) (proto.Message, error) {
				return s.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: a.leaseID(l, of)})
			})
		case n < 5:
			l := a.drawLease()
			ask("time to live", func(of int, s etcdServices) (proto.Message, error) {
				return s.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: a.leaseID(l, of), Keys: true})
			})
		case n < 9:
			r := a.drawRead()
			if a.IntN(2) == 0 {
				r.Revision = max(0, a.revision-int64(a.IntN(30)-1)) // it may be in the future
			}
			ask(prototext.Format(r), func(_ int, s etcdServices) (proto.Message, error) { return s.Range(ctx, r) })
		default:
			r := a.drawTxn(2)
			ask(prototext.Format(r(1)), func(of int, s etcdServices) (proto.Message, error) {
				resp, err := s.Txn(ctx, r(of))
				a.revision = max(a.revision, resp.GetHeader().GetRevision())
				return resp, err
			})
		}
	}
	require.Greater(t, a.revision, int64(300), "much was changed")
	for _, err := range []error{rpctypes.ErrDuplicateKey, rpctypes.ErrTooManyOps, rpctypes.ErrLeaseNotFound} {
		require.NotZero(t, a.errorCounts[err.Error()], err)
	}

	var notified [2][]string
	for of, watch := range watches {
		require.NoError(t, func() error {
			_, err := both[of].Put(ctx, &pb.PutRequest{Key: []byte("k/end")})
			return err
		}())
		for ended := false; !ended; {
			for _, ev := range (<-watch).Events {
				ended = ended || string(ev.Kv.Key) == "k/end"
				notified[of] = append(notified[of], fmt.Sprint(ev.Type, string(ev.Kv.Key), string(ev.Kv.Value),
					ev.Kv.CreateRevision,
					ev.Kv.ModRevision, ev.Kv.Version))
			}
		}
	}
	require.Len(t, notified[0], len(notified[1]))
	for i := range notified[1] {
		require.Equal(t, notified[1][i], notified[0][i], "seed %d, change %d", seed, i)
	}
	cancel()
	for _, watch := range watches {
		for range watch {
		}
	}
}
