package host

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/test/probepb"
)

var many = flag.Int("host.objects", 20_000, "how many objects TestManyObjects activates")

// heap returns the bytes of the heap that are in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // collects what finalizers freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// An activation takes less than a bound beside its implementation and its key, and nothing of it is left
// afterwards.
func TestManyObjects(t *testing.T) {
	impl := &counter{}
	var r registrar
	objects.Register(&r, probepb.RegisterProbeServer, func(context.Context, *objects.Object) (probepb.ProbeServer, error) {
		return impl, nil
	}, objects.IdleAfter(time.Second+time.Duration(*many)*30*time.Microsecond))
	h := New(limited(Config{Shards: newHeld(max(64, min(8192, *many/128)), true), MaxActive: 1 << 30,
		At: func(string) grpc.ClientConnInterface { return nil }}), NewServices(r.all))
	defer h.Close()
	echo := h.services.Method(probepb.Probe_Add_FullMethodName)
	keys := make([]string, *many)
	for i := range keys {
		keys[i] = fmt.Sprint("object/", i)
	}
	before, goroutines := heap(), runtime.NumGoroutine()
	began := time.Now()
	for _, key := range keys {
		require.NoError(t, invoke(context.Background(), h, echo, key, &probepb.AddRequest{}, &probepb.AddResponse{}))
	}
	took := time.Since(began)
	if active := h.evictor.activations.Load(); active == int64(*many) { // otherwise some are already idle
		each := float64(heap()-before) / float64(*many)
		t.Logf("%d objects: %.0f bytes each, %v to activate one", *many, each, took/time.Duration(*many))
		require.Less(t, each, 400.0)
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+maxIdleWorkers, "an object at rest has no goroutine")
	}
	require.Eventually(t, func() bool { return h.evictor.activations.Load() == 0 }, time.Minute, 10*time.Millisecond)
	after := heap()
	t.Logf("all of them idle after %v; %d bytes are left of each", time.Since(began),
		(int64(after)-int64(before))/int64(*many))
	require.Less(t, int64(after)-int64(before), int64(*many)*10+1<<20)
	runtime.KeepAlive(keys)
}
