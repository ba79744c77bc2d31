package leasequeue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A batch of any size is a valid transaction for etcd. It holds all operations in order, and each answer is
// matched with its operation.
func TestBatchesOfAnySize(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	c := newComposer(7)
	for range 500 {
		var batch []queueOp
		want := []string{"put counter"}
		for most, cost := 1+rnd.IntN(maxBatchOps), 0; ; {
			x := &Entry{EntrySpec: EntrySpec{Name: "n", Value: "me", Shared: rnd.IntN(5) == 0},
				key: fmt.Sprintf("q%d/k%d", len(batch),
					len(batch)), queue: fmt.Sprintf("q%d/", len(batch))}
			o := queueOp{entry: x, creates: rnd.IntN(2) == 0}
			if cost += o.opCount(); cost > most {
				break
			}
			batch = append(batch, o)
			if o.creates {
				want = append(want, "put "+x.key, fmt.Sprintf("get %s to q%d0", x.queue, len(batch)-1))
			} else {
				want = append(want, "delete "+x.key)
			}
		}
		ops := c.compose("counter", 5, batch)
		require.LessOrEqual(t, len(ops), maxTxnOps)
		var said []string
		resp := &clientv3.TxnResponse{}
		for _, o := range ops {
			if !o.IsTxn() {
				said = append(said, say(o))
				resp.Responses = append(resp.Responses, answer(said))
				continue
			}
			_, inner, _ := o.Txn()
			require.LessOrEqual(t, len(ops)+len(inner), maxTxnOps)
			group := &pb.TxnResponse{}
			for _, o := range inner {
				said = append(said, say(o))
				group.Responses = append(group.Responses, answer(said))
			}
			resp.Responses = append(resp.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: group}})
		}
		require.Equal(t, want, said)
		all := batchResponses(resp)
		require.Len(t, all, len(want)-1)
		for i, a := range all {
			require.EqualValues(t, i+2, a.GetResponsePut().Header.Revision)
		}
		c.dropKeys()
		require.False(t, slices.ContainsFunc(c.ops[:cap(c.ops)], func(o clientv3.Op) bool { return len(o.KeyBytes()) > 0 }),
			"nothing is kept of this or a larger batch before")
	}
}

func say(o clientv3.Op) string {
	switch {
	case o.IsPut():
		return "put " + string(o.KeyBytes())
	case o.IsDelete():
		return "delete " + string(o.KeyBytes())
	}
	return fmt.Sprintf("get %s to %s", o.KeyBytes(), o.RangeBytes())
}

// answer returns a response that carries its own index.
func answer(said []string) *pb.ResponseOp {
	put := &pb.PutResponse{Header: &pb.ResponseHeader{Revision: int64(len(said))}}
	return &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: put}}
}
