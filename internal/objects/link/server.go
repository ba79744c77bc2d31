package link

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/budget"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Handler handles the calls that arrive.
type Handler interface {
	// Serve is called for each complete call, in order of arrival, from the goroutine that reads the link: it must
	// not block, and what it leaves undone, for other goroutines, has to end with a Reply.
	Serve(c *Incoming)
}

// ServerConfig is what a Server needs. Handler is required.
type ServerConfig struct {
	// Prefix is that of the cluster. Links of callers with another one are refused with FAILED_PRECONDITION.
	Prefix string
	// Handler gets the calls.
	Handler Handler
	// MaxMessage is how many bytes a request or a response may have; a call with a longer one fails with
	// RESOURCE_EXHAUSTED. Default 4 MiB.
	MaxMessage int
	// MaxHeld is how many bytes of calls without a reply are held for one link, about; then it is not read
	// further until some are answered. Default 512 MiB.
	MaxHeld int64
	// MaxBuffered is how many bytes of replies wait for a slow peer, about; then its link is not read further.
	// Default 32 MiB.
	MaxBuffered int64
	// Budget counts what calls, parts of calls and replies hold, by connection. A call for which there is no room is
	// answered with [budget.ErrFull]. Nil: no limit.
	Budget *budget.Budget
}

// WithDefaults is the configuration with what was left out.
func (c ServerConfig) WithDefaults() ServerConfig {
	if c.MaxMessage <= 0 {
		c.MaxMessage = defaultMaxMessage
	}
	if c.MaxHeld <= 0 {
		c.MaxHeld = defaultMaxHeld
	}
	if c.MaxBuffered <= 0 {
		c.MaxBuffered = defaultMaxBuffered
	}
	return c
}

// Server is the called side of links. Its methods may be called from any goroutine.
type Server struct {
	cfg ServerConfig

	mu     sync.Mutex
	links  map[*serverLink]struct{}
	closed bool
	wg     sync.WaitGroup // the goroutines of all links
}

// NewServer returns a server. It does nothing before Link is called.
func NewServer(cfg ServerConfig) *Server {
	return &Server{cfg: cfg.WithDefaults(), links: map[*serverLink]struct{}{}}
}

// Link serves one link, until it ends or the server is closed. It is what an implementation of
// objectspb.ObjectsServer calls in its method of that name. A peer that does not follow the protocol is answered with
// INVALID_ARGUMENT. The goroutines of a link end with it; Close joins them. The gRPC server must accept messages of
// 3 MiB; by default it does.
func (s *Server) Link(stream grpc.BidiStreamingServer[objectspb.LinkRequest, objectspb.LinkResponse]) error {
	l := newServerLink(s, stream)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errStopping
	}
	s.links[l] = struct{}{}
	s.wg.Add(3)
	s.mu.Unlock()
	defer s.wg.Done()
	go l.read()
	go l.write()
	err := l.wait()
	s.mu.Lock()
	delete(s.links, l)
	s.mu.Unlock()
	return err
}

// Close ends all links, and returns when their goroutines have ended. From its call on no calls are read, and
// each link ends once all replies to those that were read are sent, or with ctx, whose error is returned then. Links
// that are opened later are refused with UNAVAILABLE. Close comes before the gRPC server's GracefulStop, which would
// wait for the links. It may be called again.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	links := make([]*serverLink, 0, len(s.links))
	for l := range s.links {
		links = append(links, l)
	}
	s.mu.Unlock()
	for _, l := range links {
		l.drain(errStopping)
	}
	cut := false
	stop := context.AfterFunc(ctx, func() {
		for _, l := range links {
			if l.stop(errStopping) {
				s.mu.Lock()
				cut = true
				s.mu.Unlock()
			}
		}
	})
	s.wg.Wait()
	stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if cut {
		return context.Cause(ctx)
	}
	return nil
}

// errStopping ends the links of a server that is closed.
var errStopping = status.Error(codes.Unavailable, "link: the node stops")
