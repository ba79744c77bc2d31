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
)

// Time limits of a served connection: a client that is slow or silent must not
// hold a node's file descriptors.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = time.Minute
	headerBytes   = 16 << 10
)

// handlerGrace is how long a stop waits for handlers to notice that their contexts have
// ended.
const handlerGrace = time.Second

// stoppingKey is that of a channel in a request's context, which is closed when the server is to stop: streams end
// then.
type stoppingKey struct{}

// Server is an HTTP server that runs. Its methods are safe for concurrent use.
type Server struct {
	server  *http.Server
	address string
	halt    func() // ends the streams
	log     hclog.Logger
	conns   *conns
	arrival time.Duration

	listener net.Listener
	stopping atomic.Bool
	done     chan struct{}
	err      error         // read after done
	ended    chan struct{} // closed after done, when no connection is left
}

// Serve serves h on l, with time limits, in a goroutine that Stop joins. It takes
// l over. log receives what goes wrong in a connection; nil logs nothing.
func Serve(l net.Listener, h http.Handler, log hclog.Logger) *Server {
	log = logqueue.New(log)
	stopping := make(chan struct{})
	base := context.WithValue(context.Background(), stoppingKey{}, (<-chan struct{})(stopping))
	s := &Server{
		halt: sync.OnceFunc(func() { close(stopping) }),
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
		address: l.Addr().String(),
		log:     log,
		conns:   newConns(),
		arrival: arrival, listener: l,
		done:  make(chan struct{}),
		ended: make(chan struct{}),
	}
	s.server.ConnState = s.conns.changed
	go func() {
		defer close(s.ended)
		defer s.conns.open.Wait()
		defer close(s.done)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !s.stopping.Load() {
			s.err = fmt.Errorf("http: stopped serving at %s: %w", s.address, err)
		}
	}()
	return s
}

// Address is the IP address and port that are bound.
func (s *Server) Address() string { return s.address }

// Done is closed when the server no longer accepts: after Stop, or after a fault
// that Err returns.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err is why the server ended by itself; nil while it runs and after Stop.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stop frees the port and lets running requests finish, but for streams, which end; connections on which no request
// came yet are closed, those that were opened just now a moment later. When ctx ends it
// cuts the requests off and says so. It returns when the server's goroutines have ended,
// those of its connections included; only a handler that ignores for a second that its
// request's context has ended is left behind. It may be called again, and concurrently.
func (s *Server) Stop(ctx context.Context) error {
	s.halt()
	s.stopping.Store(true)
	_ = s.listener.Close() // it may be closed already
	<-s.done
	s.conns.shutSilent(s.arrival)
	s.conns.await(ctx, s.arrival) // before Shutdown, which has the server drop the requests that come
	s.conns.shutSilent(0)
	err := s.server.Shutdown(ctx)
	if err != nil {
		_ = s.server.Close() // its error is the listener's, which is closed already
		err = fmt.Errorf("http: requests at %s were cut off: %w", s.address, err)
	}
	patience := time.NewTimer(handlerGrace)
	defer patience.Stop()
	select {
	case <-s.ended:
	case <-patience.C:
		s.log.Error("a request ignores its cancelled context and was left behind", "address", s.address)
	}
	return err
}
