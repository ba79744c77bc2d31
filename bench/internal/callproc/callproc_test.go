package callproc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/bench/internal/etcdproc"
)

const briefly = 20 * time.Millisecond

func TestArgumentsOfOthersAreNotServed(t *testing.T) {
	for _, args := range [][]string{nil, {"-quick"}, {answerGRPCArg, "more"}, {callObjectsArg, "etcd"}} {
		asked, err := Serve(args)
		require.NoError(t, err)
		require.False(t, asked, args)
	}
}

// Every arm of the measurement makes calls that another process answers.
func TestEveryCallerIsAnswered(t *testing.T) {
	ctx := patient(t)
	etcd := started[*etcdproc.Process](t)(etcdproc.Start())
	owner := server(t)(StartObjects(etcd.Endpoint))
	node := client(t)(StartObjectsCaller(etcd.Endpoint, owner.Said))
	require.NotEqual(t, owner.Said, node.Address)
	keys, err := node.Keys(ctx, 4) // each owner has confirmed its key
	require.NoError(t, err)
	require.Len(t, keys, 4)

	raw := client(t)(StartGRPCCaller(server(t)(StartGRPC()).Said))
	actors := client(t)(StartProtoactorCaller(server(t)(StartProtoactor()).Said))
	for name, arm := range map[string]struct {
		caller  *Caller
		keys    []string
		streams bool
	}{
		"raw":                    {raw, nil, true},
		"protoactor-go":          {actors, nil, false},
		"another node":           {node, keys, true},
		"outside, at the owner":  {client(t)(StartGRPCCaller(owner.Said)), keys, true},
		"outside, at the others": {client(t)(StartGRPCCaller(node.Address)), keys, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, l := range []Load{{Kind: Unary, Callers: 4, Bytes: 1}, {Kind: Unary, Callers: 1, Bytes: 4096},
				{Kind: Download, Bytes: 1024}, {Kind: Chat, Bytes: 1024}, {Kind: Chat, Bytes: 1024}} {
				l.Lasts, l.Keys = briefly, arm.keys
				f, err := arm.caller.Measure(ctx, l)
				if l.Kind != Unary && !arm.streams {
					require.ErrorContains(t, err, "no streams")
					continue
				}
				require.NoError(t, err, l.Kind)
				require.Positive(t, f.Calls)
				require.GreaterOrEqual(t, f.Took, briefly)
				if l.Kind == Unary {
					require.Positive(t, f.P50)
					require.GreaterOrEqual(t, f.P99, f.P50)
				}
			}
		})
	}
	_, err = raw.Keys(ctx, 1)
	require.ErrorContains(t, err, "no node")
}

func TestQuantile(t *testing.T) {
	require.Zero(t, quantile(nil, 0.5))
	sorted := make([]time.Duration, 100)
	for i := range sorted {
		sorted[i] = time.Duration(i + 1)
	}
	require.EqualValues(t, 50, quantile(sorted, 0.5))
	require.EqualValues(t, 99, quantile(sorted, 0.99))
	require.EqualValues(t, 1, quantile(sorted, 0))
}
