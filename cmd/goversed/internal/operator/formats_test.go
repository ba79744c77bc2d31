package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/state/format/formatheader"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

func TestPrintFormatChanged(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, PrintEvent(&out, event.Event{Type: event.FormatChanged, Node: "b:1", ClusterFormat: 2}, false))
	require.Contains(t, out.String(), "format_changed     b:1  format 2\n")
}

// The data of a program's event is one line of printable text, of a bounded length.
func TestPrintData(t *testing.T) {
	for data, want := range map[string]string{`{"a":"ü"}`: `{"a":"ü"}`, "\"\u009b\"": `"\"\u009b\""`,
		strings.Repeat("7", 300): strings.Repeat("7", 200) + "..."} {
		var out bytes.Buffer
		require.NoError(t, PrintEvent(&out, event.Event{Type: "app_x", Data: []byte(data)}, false))
		require.True(t, strings.HasSuffix(out.String(), "  "+want+"\n"), out.String())
	}
}

// Text shows releases and formats only while they differ; JSON always has them.
func TestStatusShowsReleasesThatDiffer(t *testing.T) {
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	older := &state.Member{Address: "b:1", Incarnation: 2}
	newer := &state.Member{Address: "a:1", Incarnation: 1, Record: state.Record{Goverse: "v0.2.0",
		Formats: format.Range{Oldest: 1, Newest: 2}}}
	print := func(asJSON bool, members ...*state.Member) string {
		var out bytes.Buffer
		require.NoError(t, PrintStatus(&out, newDetails(&state.Snapshot{Keys: keys, Members: members}), asJSON))
		return out.String()
	}
	same := print(false, newer)
	require.NotContains(t, same, "format")
	require.NotContains(t, same, "v0.2.0")
	mixed := print(false, newer, older)
	require.Contains(t, mixed, "format    1 (decided by b:1, which runs the oldest release)\n")
	require.Contains(t, mixed, "Goverse v0.2.0, format 1 to 2\n")
	require.Contains(t, mixed, "Goverse of before formats, format 1\n")

	var d Details
	require.NoError(t, json.Unmarshal([]byte(print(true, newer)), &d))
	require.Equal(t, 2, d.Format)
	require.Equal(t, "a:1", d.FormatBy)
	require.Equal(t, "v0.2.0", d.Members[0].Goverse)
	require.Equal(t, 2, d.Members[0].NewestFormat)
}

// A replacement of a member of etcd keeps the fields that this release does not know. One in a newer format is refused
// and stays as it is.
func TestReplacementsMixWithNewerReleases(t *testing.T) {
	t.Parallel()
	o, ctx := openOperatorAt(t, etcdtest.Start(t).Endpoint()), testContext(t)
	key := o.keys.EtcdReplace("x")
	put := func(value string) {
		_, err := o.client.Put(ctx, key, value)
		require.NoError(t, err)
	}
	stored := func() string {
		resp, err := o.client.Get(ctx, key)
		require.NoError(t, err)
		return string(resp.Kvs[0].Value)
	}
	put(`{"removed":"1","peer":"http://127.0.0.1:1","why":"disk"}`)
	_, kept, err := o.readReplacement(ctx, "x", "", false)
	require.NoError(t, err)
	_, _, err = o.doReplaceStep(ctx, "x", replaceStep{do: doKeep, keep: *kept}, kept)
	require.NoError(t, err)
	require.Equal(t, `{"format":1,"removed":"1","peer":"http://127.0.0.1:1","why":"disk"}`, stored())

	const newer = `{"format":2,"removed":["1"]}`
	put(newer)
	_, err = o.ReplaceEtcdMember(ctx, patience, "x", "", func(string) {})
	require.ErrorIs(t, err, format.ErrFormat)
	require.ErrorContains(t, err, key+" has format 2")
	require.Equal(t, newer, stored())
}

// A question to a node states its format.
func TestQuestionsStateTheFormat(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	stated, ended := make(chan []string, 1), make(chan error, 1)
	server := grpc.NewServer(grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
		stated <- info.Header.Get(formatheader.Name)
		return ctx, nil
	}))
	objectspb.RegisterObjectsServer(server, objectspb.UnimplementedObjectsServer{})
	go func() { ended <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		require.NoError(t, <-ended)
	}()
	_, err = (&Operator{keys: nodetest.Keys}).askNode(testContext(t), listener.Addr().String(), "", nil)
	require.Error(t, err)
	require.Equal(t, []string{"1"}, <-stated)
}
