package crash

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// A process that removes its predecessor delays its own registration, so it gives up an accusation that is not
// answered.
func TestRemoveGivesUpWhatIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := modeletcd.New()
		defer etcd.Close()
		keys, err := state.NewKeys("/g")
		require.NoError(t, err)
		lost := map[int]bool{}
		sent := 0
		conn := etcd.Connect("", func(any) modeletcd.Delivery {
			sent++
			return modeletcd.Delivery{Lost: lost[sent]}
		})
		put := &pb.PutRequest{Key: []byte(keys.Node("a:1"))}
		resp, err := etcd.Execute(&pb.TxnRequest{Success: []*pb.RequestOp{{
			Request: &pb.RequestOp_RequestPut{RequestPut: put}}}})
		require.NoError(t, err)
		there := &state.Member{Address: "a:1", Incarnation: resp.Header.Revision}
		accuser := Accuser{Client: conn.Client(), Keys: keys, ID: "b"}
		for _, n := range []int{1, 3} { // the accusation; the removal after another one
			lost[n] = true
			began := time.Now()
			require.Error(t, accuser.RemoveMember(t.Context(), there, "it does not answer"))
			require.Less(t, time.Since(began), 2*requestTimeout)
		}
		require.NoError(t, accuser.RemoveMember(t.Context(), there, "it does not answer"))
		require.Empty(t, etcd.Keys(keys.Nodes()))
	})
}
