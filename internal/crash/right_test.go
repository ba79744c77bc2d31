package crash

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// quietWatch is a watch on the process b that sends nothing.
type quietWatch struct{}

func (quietWatch) Instance() string           { return "b" }
func (quietWatch) Heartbeats() bool           { return false }
func (quietWatch) Heard() uint64              { return 0 }
func (quietWatch) ReportRemoval(int64)        {}
func (quietWatch) Close(context.Context) bool { return true }
func (quietWatch) Wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// offers records for each opened watch whether it offers to acknowledge heartbeats.
type offers struct {
	mu  sync.Mutex
	all []bool
}

func (o *offers) Watch(_ context.Context, _, _ string, heard func(heartbeat.Beat) bool) (Watch, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, heard != nil)
	return quietWatch{}, nil
}

func (o *offers) list() []bool {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all
}

// A node that may not accuse of silence does not offer to acknowledge heartbeats, and offers it once it may.
func TestWatcherWithoutRightIsNotArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := modeletcd.New()
		defer server.Close()
		client := server.Connect("", func(any) modeletcd.Delivery { return modeletcd.Delivery{} }).Client()
		var denied atomic.Bool
		limited := server.Connect("", func(any) modeletcd.Delivery {
			if denied.Load() {
				return modeletcd.Delivery{Refused: rpctypes.ErrGRPCPermissionDenied}
			}
			return modeletcd.Delivery{}
		}).Client()
		keys, err := state.NewKeys("/g")
		require.NoError(t, err)
		for _, name := range []string{"a", "b"} {
			_, err := client.Put(t.Context(), keys.Node(name+":1"), state.Record{InstanceID: name}.Encode())
			require.NoError(t, err)
		}
		s, err := etcdsession.Open(t.Context(), etcdsession.Config{TTL: time.Minute, ReadKey: "/g/x",
			Process: etcd.Process{Client: client}})
		require.NoError(t, err)
		defer func() { _ = s.Close(t.Context()) }()
		keeper, err := etcdsession.NewKeeper(etcdsession.Config{Process: etcd.Process{Client: client}},
			etcdsession.Hooks{}) // does not run
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		mirror := watchcache.New(watchcache.Config{Process: etcd.Process{Client: client, Keys: keys}})
		wg.Go(func() { _ = mirror.Run(ctx) })
		opened := &offers{}
		d := New(Config{Process: etcd.Process{Client: limited, Keys: keys, Address: "a:1"}, InstanceID: "a", Mirror: mirror,
			Keeper: keeper, Dialer: opened, Settings: Settings{SilenceTimeout: 3500 * time.Millisecond}})
		d.Start()
		defer func() { d.Stop(t.Context()) }()
		require.Equal(t, []bool{true}, opened.list(), "etcd has not answered yet")
		denied.Store(true)
		wg.Go(func() { d.armer.allowSession(ctx, s) })
		require.Equal(t, []bool{true, false}, opened.list())
		<-time.After(3 * refusedPause)
		require.Len(t, opened.list(), 2, "it is refused as before")
		denied.Store(false)
		<-time.After(refusedPause)
		require.Equal(t, []bool{true, false, true}, opened.list())
	})
}
