package crash

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/state"
)

// deletedAnswer returns the answer to a refutation of accusations, each of which was deleted or not.
func deletedAnswer(deleted ...int64) *clientv3.TxnResponse {
	resp := &clientv3.TxnResponse{Succeeded: true}
	for _, n := range deleted {
		answer := &etcdserverpb.ResponseOp_ResponseDeleteRange{
			ResponseDeleteRange: &etcdserverpb.DeleteRangeResponse{Deleted: n}}
		resp.Responses = append(resp.Responses, &etcdserverpb.ResponseOp{Response: answer})
	}
	return resp
}

// Each refuted accusation counts once, in whatever order the answers come.
func TestAnswersToRefutationsInAnyOrder(t *testing.T) {
	keys, err := state.NewKeys("/g")
	require.NoError(t, err)
	s := state.BuildSnapshot(keys, 0, 9, nil)
	d := New(Config{Process: etcd.Process{Address: "a:1"}})
	defer d.Stop(t.Context())
	r := newRefuter(d, &sync.WaitGroup{})
	first := &state.Accusation{Address: "a:1", ModRevision: 5}
	second := &state.Accusation{Address: "a:1", ModRevision: 7}
	for _, step := range []struct {
		against []*state.Accusation
		resp    *clientv3.TxnResponse
		err     error
		counted int64
	}{
		{[]*state.Accusation{first}, deletedAnswer(0), nil, 0},
		{[]*state.Accusation{second, first}, deletedAnswer(1, 0), nil, 1},
		{[]*state.Accusation{first}, nil, errors.New("no answer"), 1},
		{[]*state.Accusation{first}, deletedAnswer(1), nil, 2},
		{[]*state.Accusation{second, first}, deletedAnswer(0, 0), nil, 2},
		{[]*state.Accusation{second}, &clientv3.TxnResponse{}, nil, 2},
	} {
		r.recordAnswer(s, step.against, step.resp, step.err)
		require.Equal(t, step.counted, d.Stats().Refutations)
	}
}
