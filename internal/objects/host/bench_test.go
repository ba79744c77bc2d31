package host

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/test/probepb"
)

type counter struct {
	probepb.UnimplementedProbeServer
	sum atomic.Int64
}

func (c *counter) Add(_ context.Context, req *probepb.AddRequest) (*probepb.AddResponse, error) {
	return &probepb.AddResponse{Sum: c.sum.Add(req.GetAmount())}, nil
}

func BenchmarkDo(b *testing.B) {
	var r registrar
	objects.Register(&r, probepb.RegisterProbeServer, func(context.Context, *objects.Object) (probepb.ProbeServer, error) {
		return &counter{}, nil
	})
	h := New(limited(Config{Shards: newHeld(8192, true)}), NewServices(r.all))
	add := h.services.Method(probepb.Probe_Add_FullMethodName)
	b.Cleanup(h.Close)
	bg := context.Background()
	cancellable, cancel := context.WithCancel(bg)
	defer cancel()
	for name, ctx := range map[string]context.Context{"endless": bg, "cancellable": cancellable} {
		b.Run(name+"/1", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var reply probepb.AddResponse
				if err := invoke(ctx, h, add, "alice", &probepb.AddRequest{Amount: 1}, &reply); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/64", func(b *testing.B) {
			b.ReportAllocs()
			var wg sync.WaitGroup
			for i := range 64 {
				key := string(rune('a' + i))
				wg.Go(func() {
					for range b.N / 64 {
						var reply probepb.AddResponse
						if err := invoke(ctx, h, add, key, &probepb.AddRequest{Amount: 1}, &reply); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
