package embedetcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"google.golang.org/grpc"
)

// ErrStopped is reported by Err when the server ended without a call of Close.
var ErrStopped = errors.New("etcd stopped by itself")

// startAttempts limits the attempts with another free port.
const startAttempts = 10

// A Server is one running etcd server. Its methods are safe for concurrent use.
type Server struct {
	log      hclog.Logger
	cfg      Config
	etcd     *embed.Etcd
	dir      *dataDir
	endpoint string
	client   *clientv3.Client

	rpc     chan struct{} // closed when grpc is set
	rpcOnce sync.Once
	grpc    *grpc.Server

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error
	done      chan struct{} // closed by recordEnd, with err set before
	err       error
}

// Start runs an etcd server and returns once it serves clients. If ctx ends first, Start stops the server and
// returns an error that wraps the cause; before that it waits for work on etcd's files that cannot be
// interrupted, such as replaying a large log. Other errors match ErrConfig, ErrDataDir, ErrAddressInUse,
// ErrMemberLost, ErrNotMember or ErrStopped, or wrap the error with which etcd failed to start. The life of the
// server does not depend on ctx: Close ends it.
//
// With several Peers, a member starts in one of three ways.
//
// With its data, it continues as the member it was, and serves once a majority runs.
//
// Without data, it asks the others until they have answered. If none of them has data either, each waits until
// all agree on that, and a new cluster begins. So all members must run at the same time once; they may start in
// any order.
//
// If the others run etcd, a member without data joins them if it was added to the cluster and has not served
// yet, and gets its data from them. Start fails with ErrMemberLost if the others know this member as one that
// has served, because it must not vote a second time on entries that it confirmed before. It fails with
// ErrNotMember if they do not know it at all. The remedy for both: remove the member of that name from the
// cluster, if there is one, and add one with this peer address as a learner. Until then, Start may simply be
// called again.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	s, err := beginServer(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.waitReady(ctx); err != nil {
		return nil, errors.Join(err, s.closeServer(true))
	}
	return s, nil
}

// beginServer starts a server without waiting until it serves.
func beginServer(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if ctx.Err() != nil {
		return nil, notReadyError(ctx)
	}
	if err := cfg.readTLS(); err != nil {
		return nil, err
	}
	dir, err := openDataDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	cfg.DataDir = dir.path
	if err := dir.checkDatabase(); err != nil {
		return nil, errors.Join(err, dir.release())
	}
	b, err := prepareBoot(ctx, cfg, dir)
	if err != nil {
		return nil, errors.Join(err, dir.release())
	}
	s, err := launchEtcd(ctx, cfg, dir, b)
	if err != nil {
		return nil, errors.Join(err, dir.release())
	}
	if err := dir.removeNote(); err != nil {
		return nil, errors.Join(err, s.closeServer(true))
	}
	return s, nil
}

// launchEtcd starts etcd. If another process takes the free port first, it tries another one.
func launchEtcd(ctx context.Context, cfg Config, dir *dataDir, b bootPlan) (*Server, error) {
	for attempt := 1; ; attempt++ {
		listen, err := choosePort(ctx, "ListenClient", cfg.ListenClient)
		if err != nil {
			return nil, err
		}
		s := &Server{
			log: cfg.Logger, cfg: cfg, dir: dir, endpoint: reachableAddress(listen),
			rpc: make(chan struct{}), closing: make(chan struct{}), done: make(chan struct{}),
		}
		s.etcd, err = embed.StartEtcd(etcdConfig(cfg, s, b, listen))
		if err == nil {
			go s.recordEnd()
			return s, nil
		}
		err = startError(cfg, dir.path, listen, err)
		_, port, _ := net.SplitHostPort(cfg.ListenClient)
		if port != "0" || !errors.Is(err, ErrAddressInUse) || attempt == startAttempts || ctx.Err() != nil {
			return nil, err
		}
	}
}

// setGRPC receives etcd's gRPC server just before that begins to serve.
func (s *Server) setGRPC(g *grpc.Server) {
	s.rpcOnce.Do(func() {
		s.grpc = g
		close(s.rpc)
	})
}

// waitReady waits until etcd has a leader and serves its client port.
func (s *Server) waitReady(ctx context.Context) error {
	for _, ready := range []<-chan struct{}{s.etcd.Server.ReadyNotify(), s.rpc} {
		if err := s.awaitWithLog(ctx, ready); err != nil {
			return err
		}
	}
	if err := s.checkAddress(); err != nil {
		return err
	}
	s.client = v3client.New(s.etcd.Server)
	return nil
}

// awaitWithLog waits for ready and logs at intervals that it waits.
func (s *Server) awaitWithLog(ctx context.Context, ready <-chan struct{}) error {
	again := time.NewTimer(logAfter)
	defer again.Stop()
	for {
		select {
		case <-ready:
			return nil
		case <-s.done:
			return s.err
		case <-ctx.Done():
			return notReadyError(ctx)
		case <-again.C:
			if len(s.cfg.Peers) > 1 {
				s.log.Info("waiting for a majority of etcd's members", "member", s.cfg.Name, "members", initialCluster(s.cfg))
			}
			again.Reset(logEvery)
		}
	}
}

func notReadyError(ctx context.Context) error {
	return fmt.Errorf("embedetcd: etcd did not serve in time: give it more time, and with Peers start more than half "+
		"of the members (%w)", context.Cause(ctx))
}

// recordEnd records the end of the server, whatever its cause.
func (s *Server) recordEnd() {
	defer close(s.done)
	var cause error
	select {
	case cause = <-s.etcd.Err():
	case <-s.etcd.Server.StopNotify():
	}
	select {
	case <-s.closing:
		return
	default:
	}
	s.err = fmt.Errorf("embedetcd: %w at %s: see its log, then close it and start another", ErrStopped, s.endpoint)
	if s.removedFromCluster() {
		s.err = removedError(s.cfg, s.etcd.Server.MemberID())
	}
	if cause != nil {
		s.err = fmt.Errorf("%w (%w)", s.err, cause)
	}
	s.log.Error("etcd stopped by itself", "endpoint", s.endpoint, "error", s.err)
}

// Endpoint returns the host:port at which clients on this machine connect.
func (s *Server) Endpoint() string { return s.endpoint }

// Client returns a client that calls the server in process, without a socket. It returns the same client each
// time. Close closes it; callers must not. Its dialing methods, such as ActiveConnection, have nothing to
// return.
func (s *Server) Client() *clientv3.Client { return s.client }

// Done returns a channel that is closed when the server has ended, by Close or by itself. If it ended by
// itself, Err returns the reason, and the caller must still call Close.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns the reason that the server ended by itself. It returns nil while the server runs and after Close.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close ends the server. If it is etcd's leader and a member of several, it first hands over leadership. When
// Close returns, clients are disconnected, the ports are free, and a temporary data directory is gone.
// Acknowledged writes are kept. Further calls wait for the first one and return its result.
func (s *Server) Close() error { return s.closeServer(false) }

// closeServer implements Close. With crash it leaves out the steps that a crashed member would not take.
func (s *Server) closeServer(crash bool) error {
	s.closeOnce.Do(func() {
		close(s.closing)
		if !crash && s.client != nil {
			crash = !s.moveLeadership() // while clients are still served; etcd need not try again
		}
		if s.client != nil {
			_ = s.client.Close()
		}
		select {
		case <-s.rpc:
			// Etcd's graceful end would wait seconds for open watches.
			s.grpc.Stop()
		default:
			crash = true // not ready: etcd's graceful end would wait until it is
		}
		if crash {
			s.etcd.Server.HardStop()
		}
		s.etcd.Close()
		<-s.done
		s.closeErr = s.dir.release()
	})
	return s.closeErr
}
