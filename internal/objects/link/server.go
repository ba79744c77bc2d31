package link

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/peer/budget"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Handler handles the calls that arrive.
type Handler interface {
	// Serve is called for each complete call, in the order of arrival, by the goroutine that reads the link. It
	// must not block. It may leave work to other goroutines, but each call must end with a Reply.
	Serve(c *Incoming)
}

// ServerConfig configures a Server. Handler is required.
type ServerConfig struct {
	// Prefix is the cluster's prefix. Links from callers with another prefix are refused with
	// FAILED_PRECONDITION.
	Prefix string
	// Handler receives the calls.
	Handler Handler
	// MaxMessage limits the bytes of a request or a response. A call with a longer one fails with
	// RESOURCE_EXHAUSTED. Default 4 MiB.
	MaxMessage int
	// Budget counts the bytes that calls, parts of calls and replies hold, by connection. A call for which
	// there is no room is answered with [budget.ErrFull]. Nil means no limit.
	Budget *budget.Budget
	// maxHeld limits the approximate number of bytes of unanswered calls of one link. Beyond it the link is not
	// read until some are answered. Default 512 MiB.
	maxHeld int64
	// maxBuffered limits the approximate number of bytes of replies that wait for a slow peer. Beyond it the
	// link is not read. Default 32 MiB.
	maxBuffered int64
}

// withDefaults returns the configuration with defaults for the unset fields.
func (c ServerConfig) withDefaults() ServerConfig {
	if c.MaxMessage <= 0 {
		c.MaxMessage = defaultMaxMessage
	}
	if c.maxHeld <= 0 {
		c.maxHeld = defaultMaxHeld
	}
	if c.maxBuffered <= 0 {
		c.maxBuffered = defaultMaxBuffered
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

// NewServer returns a Server. It does nothing before Link is called.
func NewServer(cfg ServerConfig) *Server {
	return &Server{cfg: cfg.withDefaults(), links: map[*serverLink]struct{}{}}
}

// Link serves one link and blocks until it ends or the server is closed. An implementation of
// objectspb.ObjectsServer calls it in its Link method. A peer that violates the protocol gets INVALID_ARGUMENT.
// The goroutines of a link end with it; Close waits for them. The gRPC server must accept messages of 3 MiB, as
// it does by default.
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
	go l.readCalls()
	go l.writeReplies()
	err := l.awaitEnd()
	s.mu.Lock()
	delete(s.links, l)
	s.mu.Unlock()
	return err
}

// Close ends all links and blocks until their goroutines have ended. It stops the reading of calls at once.
// Each link ends when all replies to the calls that were read are sent, or when ctx ends; Close then returns
// the cause of ctx. Later links are refused with UNAVAILABLE. Call Close before the gRPC server's GracefulStop,
// which would wait for the links. It may be called again.
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
			if l.stopLink(errStopping) {
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

// errStopping is the error of the links of a server that is closed.
var errStopping = status.Error(codes.Unavailable, "link: the node stops")
