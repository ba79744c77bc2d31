package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/histogram/samples"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// answerFunc is a node that answers questions for its figures with what it returns, and does nothing else.
type answerFunc func(ctx context.Context) (figures string, err error)

// answeringNode adapts an answerFunc to its gRPC service.
type answeringNode struct {
	objectspb.UnimplementedObjectsServer
	answer answerFunc
}

// Describe implements objectspb.ObjectsServer.
func (n answeringNode) Describe(ctx context.Context, _ *objectspb.DescribeRequest) (*objectspb.DescribeResponse,
	error) {
	if n.answer == nil {
		return n.UnimplementedObjectsServer.Describe(ctx, nil)
	}
	figures, err := n.answer(ctx)
	return &objectspb.DescribeResponse{Figures: []byte(figures)}, err
}

// answering starts a node and returns its address.
func answering(t *testing.T, answer answerFunc) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, ended := grpc.NewServer(), make(chan error, 1)
	objectspb.RegisterObjectsServer(server, answeringNode{answer: answer})
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-ended)
	})
	return listener.Addr().String()
}

// many returns n JSON objects, separated by commas.
func many(n int, object string) string { return strings.TrimSuffix(strings.Repeat(object+",", n), ",") }

// A node that answers with too much, with another address, with nonsense or not at all is listed under its own address,
// and the others' figures are there.
func TestFiguresOfFaultyNodes(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	c := start(t, etcd, func(cfg *Config) { cfg.CrashDetection.Off = true })
	long := fmt.Sprintf(`{"services":[%s],"processors":[%s],"busy":[%s],"samples":[%s]}`, many(maxFiguresList+1,
		`{"name":"a"}`), many(maxFiguresList+1, `{"name":"p","last_error":"`+strings.Repeat("ü", maxFiguresText)+`"}`),
		many(100, `{"shard":1}`), many(1000, `{"calls":1}`))
	text := func(figures string) answerFunc {
		return func(context.Context) (string, error) { return figures, nil }
	}
	says := map[string]string{
		answering(t, text(`{"address":"other:1","error":"none","services":[{"name":"a","calls":7}]}`)): "",
		answering(t, text(long)): "",
		answering(t, text(`{"services":[`+strings.Repeat(" ", maxFiguresBytes)+`]}`)): "received message larger than max",
		answering(t, text(`[]`)): "its answer cannot be read: json: cannot unmarshal",
		answering(t, text("")):   "it runs a version without figures",
		answering(t, nil):        "it runs a version without figures",
		answering(t, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}): "no answer in time",
		answering(t, func(context.Context) (string, error) {
			return "", status.Error(codes.DeadlineExceeded, "seen by the node first")
		}): "no answer in time",
		answering(t, func(context.Context) (string, error) { return "", fmt.Errorf("one\ntwo") }): "one; two",
	}
	for address := range says {
		record := state.Record{InstanceID: address}
		_, err := etcd.Client().Put(etcdtest.Context(t), "/goverse/nodes/"+address, record.Encode())
		require.NoError(t, err)
	}
	awaitState(t, c, func(s *state.Snapshot) bool { return len(s.Members) == len(says)+1 })
	ctx, cancel := context.WithTimeout(etcdtest.Context(t), 30*figuresTimeout)
	defer cancel()
	late := func(f Figures) bool { return f.Error == "no answer in time" && f.Error != says[f.Address] }
	all, err := c.Figures(ctx, time.Time{})
	for err == nil && slices.ContainsFunc(all, late) && ctx.Err() == nil { // the machine is busy
		all, err = c.Figures(ctx, time.Time{})
	}
	require.NoError(t, err)
	require.NoError(t, ctx.Err(), "a node that does not answer is not waited for")
	require.Len(t, all, len(says)+1)
	calls := 0
	for _, f := range all {
		want, faulty := says[f.Address]
		require.Equal(t, !faulty, f.Address == c.address(), f.Address)
		require.Equal(t, want == "", f.Error == "", f.Error)
		require.Contains(t, f.Error, want)
		require.NotContains(t, f.Error, "\n")
		require.LessOrEqual(t, len(f.Services), maxFiguresList)
		require.LessOrEqual(t, len(f.Processors), maxFiguresList)
		require.LessOrEqual(t, len(f.Busy), samples.MaxBusy)
		require.LessOrEqual(t, len(f.Samples), samples.Limit)
		for _, s := range f.Services {
			calls += int(s.Calls)
		}
		for _, p := range f.Processors {
			require.LessOrEqual(t, len(p.LastError), maxFiguresText)
		}
	}
	require.Equal(t, 7, calls, "what a node says is shown at its own address")
}

// A node answers with the samples after the requested time, and with none if none are requested.
func TestSamplesOfFigures(t *testing.T) {
	t.Parallel()
	c := start(t, etcdtest.Start(t))
	began := time.Now().Add(-time.Minute).Truncate(samples.Every)
	c.history.mu.Lock()
	c.history.past = samples.History{}
	for i := range 3 {
		c.history.past.Add(samples.Reading{At: began.Add(time.Duration(i) * samples.Every)})
	}
	c.history.mu.Unlock()
	ask := func(after time.Time) (got Figures) {
		t.Helper()
		answer, err := c.describeFigures(t.Context(), c.parts.Load(),
			&objectspb.DescribeRequest{SamplesAfter: samplesAfter(after)})
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(answer, &got))
		return got
	}
	require.Empty(t, ask(time.Time{}).Samples)
	all := ask(time.Unix(0, 0)).Samples
	require.GreaterOrEqual(t, len(all), 2, "another one may have become due")
	require.Equal(t, began.Add(samples.Every).UTC(), all[0].Time)
	require.Equal(t, began.Add(2*samples.Every).UTC(), ask(all[0].Time).Samples[0].Time)
}
