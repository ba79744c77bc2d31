package renewal

import (
	"context"
	"errors"
	"reflect"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// Streams opens streams of renewals. A clientv3.Lease that is one is asked itself, and not the
// client's connection: for tests that come between the two.
type Streams interface {
	LeaseKeepAlive(ctx context.Context, opts ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error)
}

// Renewer renews leases over one standing stream. All methods are safe for concurrent use.
type Renewer struct {
	once    clientv3.Lease // asked for a renewal on a stream of its own, and where streams is nil
	streams Streams
	hedged  bool // there are several endpoints, of which one may hang
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu       sync.Mutex
	standing *stream
	openings []*opening
	stalls   int // of standing streams, since one answered
	singles  int // renewals left that get a stream of their own
}

// After maxStalls standing streams that stalled, each of which had answered when it was fresh, so
// many renewals get a stream of their own before another is left standing.
const maxStalls, singles = 3, 300

func newRenewer(client *clientv3.Client) *Renewer {
	r := &Renewer{once: client.Lease, streams: streamsOf(client), hedged: len(client.Endpoints()) > 1}
	r.ctx, r.cancel = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	return r
}

// stock is the type of the Lease that etcd's client has if nobody replaced it.
var stock = reflect.TypeOf(clientv3.NewLeaseFromLeaseClient(nil, nil, 0))

// streamsOf is how a client opens streams, or nil if it has no way: it is in etcd's own process,
// or its Lease comes from somebody who stands in between.
func streamsOf(client *clientv3.Client) Streams {
	if own, ok := client.Lease.(Streams); ok {
		return own
	}
	if reflect.TypeOf(client.Lease) == stock && client.ActiveConnection() != nil {
		return clientv3.RetryLeaseClient(client)
	}
	return nil
}

// Renew renews a lease and returns etcd's answer to that very request, or an error of rpctypes:
// ErrLeaseNotFound if there is no such lease. It blocks until etcd answers or ctx ends. A stream
// that does not answer before the deadline of ctx is given up.
func (r *Renewer) Renew(ctx context.Context, id clientv3.LeaseID) (*pb.LeaseKeepAliveResponse, error) {
	if r.streams == nil || r.single() {
		return r.Alone(ctx, id)
	}
	resp, again, err := r.attempt(ctx, id)
	for n := 1; again && n < attempts && ctx.Err() == nil; n++ {
		resp, again, err = r.attempt(ctx, id)
	}
	switch {
	case err != nil:
		return nil, rpctypes.Error(err)
	case resp.TTL <= 0:
		return nil, rpctypes.ErrLeaseNotFound
	}
	return resp, nil
}

// Alone renews a lease over a stream of its own, as is best where a proxy answers in between: one like etcd
// grpc-proxy answers a fresh stream soon, and a standing one in its own time. The answer may belong to a renewal
// of the proxy's own that was sent before.
func (r *Renewer) Alone(ctx context.Context, id clientv3.LeaseID) (*pb.LeaseKeepAliveResponse, error) {
	resp, err := r.once.KeepAliveOnce(ctx, id)
	if err != nil {
		return nil, err
	}
	return &pb.LeaseKeepAliveResponse{Header: resp.ResponseHeader, ID: int64(resp.ID), TTL: resp.TTL}, nil
}

// single reports whether the next renewal gets a stream of its own.
func (r *Renewer) single() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.singles == 0 {
		return false
	}
	r.singles--
	return true
}

// attempts is how often a request is sent at most that fails with its stream.
const attempts = 3

// attempt sends one request. Again: it failed with a stream that had stood for a while, or by what etcd refused
// another one, and may not on a fresh one, which is at the next endpoint, and after another log-in.
func (r *Renewer) attempt(ctx context.Context,
	id clientv3.LeaseID) (resp *pb.LeaseKeepAliveResponse, again bool, err error) {
	s, err := r.stream(ctx)
	if err != nil {
		return nil, false, err
	}
	resp, first, err := s.renew(ctx, id)
	switch {
	case err == nil:
		r.answered(first)
	case errors.Is(err, context.DeadlineExceeded):
		r.stalled(s, first)
	case ctx.Err() == nil:
		r.discard(s)
		again = !first && !errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied)
	}
	return resp, again, err
}

// answered notes that a stream answered, to its first request or a later one.
func (r *Renewer) answered(first bool) {
	if first {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stalls = 0
}

// stalled gives up s, which did not answer in time. Of all that waited for it the first one counts.
func (r *Renewer) stalled(s *stream, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.standing == s && !first
	r.forget(s)
	if !counts {
		return
	}
	if r.stalls++; r.stalls == maxStalls {
		r.stalls, r.singles = 0, singles
	}
}

func (r *Renewer) discard(s *stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(s)
}

// forget gives up s. The lock is held.
func (r *Renewer) forget(s *stream) {
	s.cancel()
	if r.standing == s {
		r.standing = nil
	}
}

// close ends the streams, and with them every renewal that is under way. It blocks until all has
// ended.
func (r *Renewer) close() {
	r.cancel()
	r.wg.Wait()
}
