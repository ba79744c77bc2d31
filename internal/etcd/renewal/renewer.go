package renewal

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// Streams opens streams of renewals. If a client's clientv3.Lease implements it, the Renewer uses that instead
// of the client's connection, which lets tests intercept renewals.
type Streams interface {
	LeaseKeepAlive(ctx context.Context, opts ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error)
}

// Renewer renews leases over one standing stream. All methods are safe for concurrent use.
type Renewer struct {
	lease   clientv3.Lease // for renewals on a stream of their own, and for all if streams is nil
	streams Streams
	hedged  func() bool // reports whether there are several endpoints now, one of which may hang
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu          sync.Mutex
	standing    *renewalStream
	openings    []*streamOpening
	stalls      int // standing streams that stalled since one last answered
	singlesLeft int // number of further renewals that get a stream of their own
}

// After maxStalls standing streams that stalled although each had answered when it was fresh, the next singleRenewals
// renewals get a stream of their own. Then another stream is left standing.
const maxStalls, singleRenewals = 3, 300

func newRenewer(client *clientv3.Client) *Renewer {
	r := &Renewer{lease: client.Lease, streams: streamsOf(client),
		hedged: func() bool { return len(client.Endpoints()) > 1 }}
	r.ctx, r.cancel = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	return r
}

// stockLeaseType is the type of the Lease of an unmodified etcd client.
var stockLeaseType = reflect.TypeOf(clientv3.NewLeaseFromLeaseClient(nil, nil, 0))

// streamsOf returns the way to open streams on a client. It returns nil if there is none: the client is in
// etcd's own process, or its Lease was replaced.
func streamsOf(client *clientv3.Client) Streams {
	if own, ok := client.Lease.(Streams); ok {
		return own
	}
	if reflect.TypeOf(client.Lease) == stockLeaseType && client.ActiveConnection() != nil {
		return clientv3.RetryLeaseClient(client)
	}
	return nil
}

// Renew renews a lease and returns etcd's answer to exactly that request. Its errors are of rpctypes,
// ErrLeaseNotFound if there is no such lease. Renew blocks until etcd answers or ctx ends. It abandons a stream
// that had most of the time until the deadline of ctx and did not answer.
func (r *Renewer) Renew(ctx context.Context, id clientv3.LeaseID) (*pb.LeaseKeepAliveResponse, error) {
	if r.streams == nil || r.takeSingle() {
		return r.RenewAlone(ctx, id)
	}
	enough := enoughToAnswer(ctx)
	resp, again, err := r.tryRenew(ctx, id, enough)
	for n := 1; again && n < maxAttempts && ctx.Err() == nil; n++ {
		resp, again, err = r.tryRenew(ctx, id, enough)
	}
	switch {
	case err != nil:
		return nil, rpctypes.Error(err)
	case resp.TTL <= 0:
		return nil, rpctypes.ErrLeaseNotFound
	}
	return resp, nil
}

// RenewAlone renews a lease over a stream of its own, which is best through a proxy. A proxy like etcd grpc-proxy
// answers a fresh stream soon, and a standing one at times of its own. The answer may belong to an earlier
// renewal of the proxy's own.
func (r *Renewer) RenewAlone(ctx context.Context, id clientv3.LeaseID) (*pb.LeaseKeepAliveResponse, error) {
	resp, err := r.lease.KeepAliveOnce(ctx, id)
	if err != nil {
		return nil, err
	}
	return &pb.LeaseKeepAliveResponse{Header: resp.ResponseHeader, ID: int64(resp.ID), TTL: resp.TTL}, nil
}

// takeSingle reports whether the next renewal gets a stream of its own, and counts it.
func (r *Renewer) takeSingle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.singlesLeft == 0 {
		return false
	}
	r.singlesLeft--
	return true
}

// maxAttempts limits how often a request is sent that fails with its stream.
const maxAttempts = 3

// enoughToAnswer returns the time that a stream must have had for its answer before it is abandoned: three quarters
// of the time until the deadline of ctx. The request may have waited for most of that time until a slow log-in opened
// the stream. If that stream were abandoned, the next one would need another log-in, and none would ever answer.
func enoughToAnswer(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline) / 4 * 3
}

// tryRenew sends one request. A stream that has had enough time and does not answer is abandoned. again reports
// whether to repeat the request: it failed with a stream that had stood for a while, or because etcd refused another
// request, and may succeed on a fresh stream, at the next endpoint and after another log-in.
func (r *Renewer) tryRenew(ctx context.Context, id clientv3.LeaseID,
	enough time.Duration) (resp *pb.LeaseKeepAliveResponse, again bool, err error) {
	s, err := r.awaitStream(ctx)
	if err != nil {
		return nil, false, err
	}
	sent := time.Now()
	resp, first, err := s.sendRenewal(ctx, id)
	switch {
	case err == nil:
		r.recordAnswer(first)
	case errors.Is(err, context.DeadlineExceeded):
		if time.Since(sent) >= enough {
			r.recordStall(s)
		}
	case ctx.Err() == nil:
		r.discardStream(s)
		again = !first && !errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied)
	}
	return resp, again, err
}

// recordAnswer records that a stream answered. first means that this was its first request.
func (r *Renewer) recordAnswer(first bool) {
	if first {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stalls = 0
}

// recordStall abandons s, which did not answer in time. It counts if s had answered before. If several requests
// waited for it, only the first one counts.
func (r *Renewer) recordStall(s *renewalStream) {
	answered := s.hasAnswered()
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.standing == s && answered
	r.forgetStream(s)
	if !counts {
		return
	}
	if r.stalls++; r.stalls == maxStalls {
		r.stalls, r.singlesLeft = 0, singleRenewals
	}
}

func (r *Renewer) discardStream(s *renewalStream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetStream(s)
}

// forgetStream abandons s. The lock is held.
func (r *Renewer) forgetStream(s *renewalStream) {
	s.cancel()
	if r.standing == s {
		r.standing = nil
	}
}

// close ends the streams, and with them all renewals in progress. It blocks until all goroutines have ended.
func (r *Renewer) close() {
	r.cancel()
	r.wg.Wait()
}
