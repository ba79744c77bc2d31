package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/time/rate"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// programOf returns a writer of programs' events on a log of at most most events, without a limit of its rate.
func programOf(client *clientv3.Client, keys state.Keys, address string, most int) *programWriter {
	process := etcd.Process{Client: client, Keys: keys, Address: address, RequestTimeout: 5 * time.Second}.WithDefaults()
	w := newProgramWriter(Config{Process: process, Mirror: watchcache.New(watchcache.Config{Process: process}), Max: most,
		MaxAge: time.Hour})
	w.limit = &ProgramLimit{rate.NewLimiter(rate.Inf, 0)}
	return w
}

type unencodable struct{}

func (unencodable) MarshalJSON() ([]byte, error) { return nil, errors.New("no form") }

func TestProgramEventsAreChecked(t *testing.T) {
	for _, typ := range []event.Type{"", "app_", "app", event.LeaderElected, "import_finished", "app_Import", "app_a-b",
		"app_a.b", "app_a b", "app_ü", "app_1", event.Type("app_" + strings.Repeat("x", maxTypeSize-3))} {
		_, err := encodeProgramEvent(typ, nil)
		require.ErrorIs(t, err, ErrBadEvent, typ)
		require.NotContains(t, err.Error(), "\n")
		require.Less(t, len(err.Error()), 250)
	}
	for _, typ := range event.Types() {
		require.False(t, typ.OfProgram(), "no type of Goverse's own may begin with %s", event.ProgramPrefix)
		require.True(t, validType(typ))
	}
	longest := event.Type("app_" + strings.Repeat("x", maxTypeSize-4))
	for want, data := range map[string]any{"": nil, `{"a":"b"}`: map[string]string{"a": "b"},
		`{"n":[1,2]}`: json.RawMessage(` {"n": [1, 2]} `), `"text"`: "text", `null`: json.RawMessage(nil)} {
		got, err := encodeProgramEvent(longest, data)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := encodeProgramEvent("app_x", strings.Repeat("x", maxDataSize-2))
	require.NoError(t, err, "two bytes are quotes")
	for _, data := range []any{strings.Repeat("x", maxDataSize-1), strings.Repeat("<", maxDataSize/2), make(chan int),
		unencodable{}, json.RawMessage("{")} {
		_, err := encodeProgramEvent("app_x", data)
		require.ErrorIs(t, err, ErrBadEvent)
	}
}

func TestRecord(t *testing.T) {
	ctx, client, keys := etcdtest.Context(t), etcdtest.Client(t), keysUnder(t, "/record")
	w := programOf(client, keys, "a:1", 1000)
	began := time.Now()
	for i := range 5 {
		require.NoError(t, w.record(ctx, "app_step", map[string]int{"step": i}))
	}
	got := list(t, client, keys, event.Query{Types: []event.Type{"app_step"}})
	require.Len(t, got, 5)
	for i, e := range got {
		require.Equal(t, event.Type("app_step"), e.Type)
		require.Equal(t, "a:1", e.Node)
		require.Equal(t, "a:1", e.RecordedBy)
		require.JSONEq(t, fmt.Sprintf(`{"step":%d}`, i), string(e.Data))
		require.WithinRange(t, e.Time, began, time.Now())
		require.True(t, i == 0 || e.Seq > got[i-1].Seq, "in the order of the calls")
	}
	require.Empty(t, list(t, client, keys, event.Query{Types: []event.Type{event.NodeLeft}}))
}

// A type that this release does not know is delivered like the others.
func TestUnknownTypesAreDelivered(t *testing.T) {
	ctx, client, keys := etcdtest.Context(t), etcdtest.Client(t), keysUnder(t, "/unknown")
	_, err := client.Put(ctx, keys.Event("moon_rose-1"),
		`{"format":1,"id":"moon_rose-1","type":"moon_rose","time":"2026-01-02T03:04:05Z","phase":"full"}`)
	require.NoError(t, err)
	require.Equal(t, event.Type("moon_rose"), list(t, client, keys, event.Query{})[0].Type)
	seen := errors.New("seen")
	require.ErrorIs(t, Follow(ctx, client, keys, 0, func(e event.Event) error {
		require.Equal(t, event.Type("moon_rose"), e.Type)
		return seen
	}), seen)
}

// Programs that record without end displace their own oldest events and at most half of the log.
func TestProgramsKeepToTheirShare(t *testing.T) {
	ctx, client, keys := etcdtest.Context(t), etcdtest.Client(t), keysUnder(t, "/share")
	const most = 60
	own := make([]event.Event, 30)
	for i := range own {
		own[i] = event.Event{ID: fmt.Sprintf("node_joined-%d", i), Type: event.NodeJoined, Time: time.Now()}
	}
	require.NoError(t, recordEvents(ctx, client, keys, own))
	var programs sync.WaitGroup
	for node := range 2 {
		w := programOf(client, keys, fmt.Sprintf("n:%d", node), most)
		programs.Go(func() {
			for range 150 {
				require.NoError(t, w.record(ctx, "app_flood", nil))
			}
		})
	}
	programs.Wait()
	require.NoError(t, pruneEvents(ctx, client, keys, keys.Events(), most, time.Now().Add(-time.Hour)))
	counts := map[event.Type]int{}
	for _, e := range list(t, client, keys, event.Query{}) {
		counts[e.Type]++
	}
	share := programShare(most)
	require.GreaterOrEqual(t, counts[event.NodeJoined], most-share-share/10)
	require.LessOrEqual(t, counts["app_flood"], share+share/10)
	require.GreaterOrEqual(t, counts["app_flood"], share-maxBatch)
}

// A node that records too fast gets an error, and may record again later. What it was refused is not in the log.
func TestRecordIsLimited(t *testing.T) {
	ctx, client, keys := etcdtest.Context(t), etcdtest.Client(t), keysUnder(t, "/limit")
	w := programOf(client, keys, "a:1", 1000)
	w.limit = &ProgramLimit{rate.NewLimiter(rate.Every(time.Hour), 3)}
	require.ErrorIs(t, w.record(ctx, event.NodeLeft, nil), ErrBadEvent, "a refused event costs nothing")
	for range 3 {
		require.NoError(t, w.record(ctx, "app_x", nil))
	}
	require.ErrorIs(t, w.record(ctx, "app_x", nil), ErrEventRate)
	require.Len(t, list(t, client, keys, event.Query{}), 3)
	require.Equal(t, rate.Every(recordInterval), newProgramWriter(w.cfg).limit.Limit())
	require.Equal(t, recordBurst, newProgramWriter(w.cfg).limit.Burst())
}

// lossy is an etcd that does what it is asked to, and whose first answers are lost.
type lossy struct {
	clientv3.KV
	lost atomic.Int64
}

func (l *lossy) Txn(ctx context.Context) clientv3.Txn { return &lossyTxn{l.KV.Txn(ctx), l} }

type lossyTxn struct {
	clientv3.Txn
	of *lossy
}

func (x *lossyTxn) Then(ops ...clientv3.Op) clientv3.Txn { x.Txn = x.Txn.Then(ops...); return x }

func (x *lossyTxn) Commit() (*clientv3.TxnResponse, error) {
	resp, err := x.Txn.Commit()
	if err == nil && x.of.lost.Add(-1) >= 0 {
		return nil, rpctypes.ErrTimeout
	}
	return resp, err
}

func TestRecordRetriesWithoutRecordingTwice(t *testing.T) {
	ctx, server, keys := etcdtest.Context(t), etcdtest.Start(t), keysUnder(t, "/retry")
	client := etcdtest.Dial(t, server.Endpoint())
	etcd := &lossy{KV: client.KV}
	client.KV = etcd
	w := programOf(client, keys, "a:1", 1000)
	etcd.lost.Store(2)
	require.NoError(t, w.record(ctx, "app_x", nil))
	require.Negative(t, etcd.lost.Load())
	require.Len(t, list(t, client, keys, event.Query{}), 1)

	etcd.lost.Store(1 << 40)
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	err := w.record(short, "app_y", nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotContains(t, err.Error(), "\n")
	require.Len(t, list(t, client, keys, event.Query{}), 2, "it may be in the log all the same")
}

// A user without the right learns which one is missing, at once.
func TestRecordWithoutTheRight(t *testing.T) {
	server, ctx, keys := etcdtest.Start(t), etcdtest.Context(t), keysUnder(t, "/elsewhere")
	root, client, _ := etcdtest.EnableUser(t, server)
	_, err := root.RoleRevokePermission(ctx, "u", "/", "0")
	require.NoError(t, err)
	err = programOf(client, keys, "a:1", 1000).record(ctx, "app_x", nil)
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	require.ErrorContains(t, err, "READ and WRITE on the prefix /elsewhere/events/")
}
