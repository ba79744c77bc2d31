package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// The reasons why a node did not report the routes, in addition to gRPC's errors.
var (
	errNotAsked  = errors.New("not asked yet")
	errNoAnswer  = errors.New("no answer yet")
	errNoRoutes  = errors.New("connected, but it has no routes yet: the cluster has no shard map, or this node no etcd")
	errOptions   = errors.New("the DialOptions do not fit together")
	errOvertaken = errors.New("another node has answered")
)

// routeSource is a stream of routes from one node, with the first routes that came.
type routeSource struct {
	address string
	ctx     context.Context // of the stream
	cancel  context.CancelFunc
	conn    *grpc.ClientConn
	stream  grpc.ServerStreamingClient[objectspb.WatchRoutesResponse]
	first   *routes
	err     error // why there are no routes
}

// close ends the stream.
func (s *routeSource) close() {
	s.cancel()
	if s.conn != nil {
		_ = s.conn.Close() // the only call that closes it
	}
}

// findSource asks the nodes one after the other. It asks the next node when one has failed or has not answered for
// a while. It returns the first source with routes that count, or nil if there is none in time; all other
// streams have ended by then. If older is set, routes of any generation count.
func (w *routeWatcher) findSource(ctx context.Context, addresses []string, older bool) *routeSource {
	round, end := context.WithTimeout(ctx, w.timing.round)
	defer end()
	stagger := time.NewTicker(w.timing.stagger)
	defer stagger.Stop()
	answers := make(chan *routeSource)
	var won *routeSource
	for asked, open, due := 0, 0, true; ; {
		if due && won == nil && asked < len(addresses) && round.Err() == nil {
			address := addresses[asked]
			go func() { answers <- w.askNode(ctx, round, address, older) }() // every answer is received below
			asked, open, due = asked+1, open+1, false
		}
		if open == 0 {
			return won
		}
		select {
		case s := <-answers:
			open, due = open-1, true
			switch {
			case s.err != nil:
				s.close()
				if !errors.Is(s.err, errOvertaken) && slices.Contains(w.cfg.Addresses, s.address) {
					w.failures[s.address] = &askError{s.address, s.err}
				}
			case won == nil:
				won = s
				end()
			default:
				s.close()
			}
		case <-stagger.C:
			due = true
		}
	}
}

// askNode waits until a node reports routes that count. The stream then lasts until ctx ends or it is closed.
// Before that it also ends with round.
func (w *routeWatcher) askNode(ctx, round context.Context, address string, older bool) *routeSource {
	s := &routeSource{address: address}
	s.ctx, s.cancel = context.WithCancel(ctx)
	keep := context.AfterFunc(round, s.cancel)
	s.err = w.openStream(s, older)
	if !keep() && (s.err == nil || status.Code(s.err) == codes.Canceled) {
		s.err = s.unansweredError(ctx, round)
	}
	return s
}

// minHeartbeats is the number of heartbeats in a row after which an older map counts: the node's view is current and
// has not changed.
const minHeartbeats = 2

// openStream opens the stream and waits for the first routes that count.
func (w *routeWatcher) openStream(s *routeSource, older bool) (err error) {
	if s.conn, err = grpc.NewClient("passthrough:///"+s.address, w.dial...); err != nil {
		return fmt.Errorf("%w: %w", errOptions, err)
	}
	prefix, known := w.cfg.Prefix, w.table.current.Load()
	if known != nil {
		prefix = known.prefix
	}
	s.stream, err = objectspb.NewObjectsClient(s.conn).WatchRoutes(s.ctx,
		&objectspb.WatchRoutesRequest{Prefix: prefix, Heartbeat: int64(heartbeat)}, grpc.WaitForReady(false))
	for beats := 0; err == nil; {
		var m *objectspb.WatchRoutesResponse
		if m, err = s.stream.Recv(); err != nil {
			return err
		}
		if m.GetUnchanged() && s.first != nil {
			if beats++; beats == minHeartbeats {
				return nil
			}
			continue
		}
		beats = 0
		if s.first, err = parseRoutes(m); err != nil || known == nil || older || s.first.generation >= known.generation {
			return err
		}
	}
	return err
}

// unansweredError returns the reason why a node had reported no routes that count when the round ended.
func (s *routeSource) unansweredError(ctx, round context.Context) error {
	switch {
	case ctx.Err() == nil && errors.Is(round.Err(), context.Canceled):
		return errOvertaken
	case s.first != nil:
		return fmt.Errorf("it lags: its shard map is of generation %d, and a later one is known", s.first.generation)
	case s.conn != nil && s.conn.GetState() == connectivity.Ready:
		return errNoRoutes
	}
	return errNoAnswer
}
