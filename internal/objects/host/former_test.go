package host

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/session"
	cshard "github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/test/probepb"
)

// A method that returns after the session has ended does not succeed, however it was called: another activation
// may have answered other calls since.
func TestSuccessOfAFormerOwner(t *testing.T) {
	bg := context.Background()
	for name, call := range map[string]func(s *site) error{
		"in the caller's goroutine": func(s *site) error { return s.do(bg, "a", "work") },
		"in one of its own":         func(s *site) error { return s.do(s.ctx(), "a", "work") },
		"from elsewhere": func(s *site) error {
			ended := make(chan error, 1)
			s.host.ServeCall(&Call{Method: s.host.services.Method(probepb.Probe_Do_FullMethodName), Key: "a",
				Shard: cshard.Of("a", 16), Request: &probepb.DoRequest{What: "work"}, Response: takerFunc(func() {
					t.Error("the reply is taken")
				})}, func(err error) { ended <- err })
			return <-ended
		},
		"by a stream": func(s *site) error {
			return s.host.ServeStream(&Call{Method: s.host.services.Method(probepb.Probe_Download_FullMethodName), Key: "a",
				Shard: cshard.Of("a", 16)}, &download{ctx: s.ctx(), lose: s.lose})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			s.world.SetAction("work", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
				s.lose()
				return &probepb.DoResponse{}, nil
			})
			err := call(s)
			require.Equal(t, codes.Unavailable, status.Code(err), err)
			require.Equal(t, objects.ReasonMayHaveStarted, objects.ReasonOf(err))
		})
	}
}

// lose ends the session by which the site holds its shards, as a pause does. The host has not noticed it yet.
func (s *site) lose() {
	n := cshard.Of("a", 16)
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	s.shards.shards[n].ctx, s.shards.shards[n].cancel = lost, func(error) {}
}

var lost = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(&session.LostError{Reason: session.ReasonPaused})
	return ctx
}()

// download is a stream on which the client asks for one blob.
type download struct {
	grpc.ServerStream
	ctx  context.Context
	lose func()
}

func (d *download) Context() context.Context { return d.ctx }

func (d *download) RecvMsg(m any) error {
	m.(*probepb.DownloadRequest).Blobs = 1
	return nil
}

func (d *download) SendMsg(any) error {
	d.lose()
	return nil
}
