package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/wait"
)

// Time limits of a connection: a slow or silent client must not hold a node's file descriptors.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = time.Minute
	headerBytes   = 16 << 10
)

// stoppingKey is the context key of a channel that closes when the server begins to stop, which ends streams.
type stoppingKey struct{}

// Server is a running HTTP server. Its methods are safe for concurrent use.
type Server struct {
	server           *http.Server
	address          string
	endStreams       func() // ends the streams
	log              hclog.Logger
	conns            *connTracker
	firstRequestWait time.Duration

	listener    net.Listener
	stopping    atomic.Bool
	done        chan struct{}
	err         error         // valid once done is closed
	connsClosed chan struct{} // closed after done, when no connection is left
}

// Serve serves h on l, with time limits, in a goroutine that Stop waits for. It takes ownership of l. log
// receives errors of connections; nil logs nothing.
func Serve(l net.Listener, h http.Handler, log hclog.Logger) *Server {
	log = logqueue.New(log)
	stopping := make(chan struct{})
	base := context.WithValue(context.Background(), stoppingKey{}, (<-chan struct{})(stopping))
	s := &Server{
		endStreams: sync.OnceFunc(func() { close(stopping) }),
		server: &http.Server{
			Handler:           h,
			BaseContext:       func(net.Listener) context.Context { return base },
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    headerBytes,
			ErrorLog:          log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		},
		address:          l.Addr().String(),
		log:              log,
		conns:            newConnTracker(),
		firstRequestWait: firstRequestWait, listener: l,
		done:        make(chan struct{}),
		connsClosed: make(chan struct{}),
	}
	s.server.ConnState = s.conns.onStateChange
	go func() {
		defer close(s.connsClosed)
		defer s.conns.open.Wait()
		defer close(s.done)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !s.stopping.Load() {
			s.err = fmt.Errorf("http: stopped serving at %s: %w", s.address, err)
		}
	}()
	return s
}

// Address returns the IP address and port that the server listens on.
func (s *Server) Address() string { return s.address }

// Done returns a channel that is closed when the server no longer accepts connections: after Stop, or after an
// error that Err returns.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns the error that ended the server; nil while it runs and after Stop.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stop frees the port and waits for running requests, but ends streams. It closes connections without a request,
// and gives those that were just opened a moment to send one. If ctx ends first, Stop cuts off the requests and
// returns an error. It returns when the server's goroutines, including those of its connections, have ended. Only
// a handler that ignores the end of its request's context for a second is left behind. Stop may be called again,
// and concurrently.
func (s *Server) Stop(ctx context.Context) error {
	s.endStreams()
	s.stopping.Store(true)
	_ = s.listener.Close() // it may be closed already
	<-s.done
	s.conns.closeSilent(s.firstRequestWait)
	s.conns.awaitFirstRequests(ctx, s.firstRequestWait) // before Shutdown, after which the server drops new requests
	s.conns.closeSilent(0)
	err := s.server.Shutdown(ctx)
	if err != nil {
		_ = s.server.Close() // its error is that of the listener, which is already closed
		err = fmt.Errorf("http: requests at %s were cut off: %w", s.address, err)
	}
	if !wait.Join(s.connsClosed, wait.JoinLimit) {
		s.log.Error("a request ignores its cancelled context and was left behind", "address", s.address)
	}
	return err
}
