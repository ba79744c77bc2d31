package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster/objects"
	cshard "github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/test/probepb"
)

// site is a host under test, with the state that its objects share.
type site struct {
	t      *testing.T
	shards *held
	host   *Host
	world  *probepb.World
}

func newSite(t *testing.T, alter func(*Config), options ...objects.Option) *site {
	s := &site{t: t, shards: newHeld(16, true), world: &probepb.World{}}
	var r registrar
	s.world.Register(&r, "here", options...)
	cfg := Config{Shards: s.shards, At: func(key string) grpc.ClientConnInterface { return at{s, key} }}
	if alter != nil {
		alter(&cfg)
	}
	s.host = New(limited(cfg), NewServices(r.all))
	t.Cleanup(s.host.Close)
	return s
}

// at is the connection to an object of the site.
type at struct {
	*site
	key string
}

func (a at) Invoke(ctx context.Context, method string, request, response any, _ ...grpc.CallOption) error {
	c := Call{Method: a.host.services.Method(method), Key: a.key, Shard: cshard.Of(a.key, a.shards.Count()),
		Request: request, Response: response, Chain: ChainOf(ctx)}
	c.Metadata, _ = metadata.FromOutgoingContext(ctx)
	c.Deadline.At, _ = ctx.Deadline()
	return a.host.Invoke(ctx, &c)
}

func (a at) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("not here")
}

func (s *site) client(key string) probepb.ProbeClient { return probepb.NewProbeClient(at{s, key}) }

func (s *site) do(ctx context.Context, key, what string) error {
	_, err := s.client(key).Do(ctx, &probepb.DoRequest{What: what, Key: key})
	return err
}

// block arranges an action that reports its beginning, and ends when the test permits.
func (s *site) block(what string) (begun chan string, end chan struct{}) {
	begun, end = make(chan string, 1000), make(chan struct{})
	s.world.SetAction(what, func(_ context.Context, p *probepb.Probe, req *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		begun <- req.GetKey()
		<-end
		return &probepb.DoResponse{}, nil
	})
	return begun, end
}

func (s *site) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	s.t.Cleanup(cancel)
	return ctx
}

// eventually waits until cond is true.
func (s *site) eventually(cond func() bool) {
	s.t.Helper()
	require.Eventually(s.t, cond, time.Minute, time.Millisecond)
}
