package leaderonly

import (
	"context"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/wait"
)

// Reasons in the google.rpc.ErrorInfo of a refused call. Its domain is objects.Domain.
const (
	ReasonNotLeader   = "NOT_LEADER"
	ReasonNoLeader    = "NO_LEADER"
	ReasonNotReady    = "NOT_READY"
	ReasonHandingOver = "HANDING_OVER"
)

// Trailers of a refused call: the leader's address, its URL if it has one, and the [Reason].
const (
	LeaderTrailer    = "goverse-leader"
	LeaderURLTrailer = "goverse-leader-url"
	RefusedTrailer   = "goverse-refused"
)

// RetryMetadata in the metadata of a call has the meaning of [RetryHeader] in a request.
const RetryMetadata = "goverse-retry"

var grpcReasons = map[Reason]string{NotLeader: ReasonNotLeader, NoLeader: ReasonNoLeader,
	NotReady: ReasonNotReady, HandingOver: ReasonHandingOver}

// GRPCOptions configures the interceptors. The zero value works.
type GRPCOptions struct {
	// Applies reports whether only the leader may answer the method /package.Service/Method. Default: all
	// methods. See [FullMethods].
	Applies func(fullMethod string) bool
	// Wait and MaxWaiting are as in [Options].
	Wait       time.Duration
	MaxWaiting int
}

// FullMethods returns a function for GRPCOptions.Applies that selects these methods, each as
// /package.Service/Method.
func FullMethods(names ...string) func(fullMethod string) bool {
	names = slices.Clone(names)
	return func(fullMethod string) bool { return slices.Contains(names, fullMethod) }
}

func (o GRPCOptions) newGate(l Leadership) (*gate, func(string) bool) {
	if o.Applies == nil {
		o.Applies = func(string) bool { return true }
	}
	wait, most := waitLimits(o.Wait, o.MaxWaiting)
	return newGate(l, wait, most), o.Applies
}

// UnaryServerInterceptor lets only the leader answer unary calls. On other nodes calls fail with UNAVAILABLE, and
// nothing has run. The status has a google.rpc.ErrorInfo and a RetryInfo, and the trailers name the leader.
func UnaryServerInterceptor(l Leadership, opts GRPCOptions) grpc.UnaryServerInterceptor {
	gate, applies := opts.newGate(l)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		if !applies(info.FullMethod) {
			return next(ctx, req)
		}
		done, refused := gate.newAttempt(hintOfCall(ctx)).runOnLeader(ctx,
			func(ctx context.Context) { resp, err = next(ctx, req) })
		if done {
			return resp, err
		}
		_ = grpc.SetTrailer(ctx, refusalTrailer(refused)) // fails only outside of a call
		return nil, refusalStatus(refused)
	}
}

// StreamServerInterceptor does the same as UnaryServerInterceptor for streams, and decides when a stream begins.
// Streams may last long, so their contexts end as soon as the leader gives way. The handler must return soon
// after, because the handover waits for it up to WorkTimeout. A handler blocked on a message from its client does
// not notice the end; let it wait for its context as well.
func StreamServerInterceptor(l Leadership, opts GRPCOptions) grpc.StreamServerInterceptor {
	gate, applies := opts.newGate(l)
	return func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		if !applies(info.FullMethod) {
			return next(srv, s)
		}
		done, refused := gate.newAttempt(hintOfCall(s.Context())).runOnLeader(s.Context(), func(ctx context.Context) {
			if term, ok := TermFrom(ctx); ok {
				var stop context.CancelFunc
				ctx, stop = wait.MergeContexts(ctx, term.Context())
				defer stop()
			}
			err = next(srv, &termStream{ServerStream: s, ctx: ctx})
		})
		if done {
			return err
		}
		s.SetTrailer(refusalTrailer(refused))
		return refusalStatus(refused)
	}
}

// termStream gives a stream a context that ends with the term.
type termStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *termStream) Context() context.Context { return s.ctx }

func hintOfCall(ctx context.Context) requestHint {
	said := metadata.ValueFromIncomingContext(ctx, RetryMetadata)
	return requestHint{retry: len(said) > 0 && said[0] != "" && said[0] != "0"}
}

func refusalTrailer(r refusal) metadata.MD {
	md := metadata.Pairs(RefusedTrailer, string(r.reason))
	if r.leader.Name != "" {
		md.Set(LeaderTrailer, r.leader.Name)
	}
	if r.leader.URL != "" {
		md.Set(LeaderURLTrailer, r.leader.URL)
	}
	return md
}

func refusalStatus(r refusal) error {
	info := &errdetails.ErrorInfo{Reason: grpcReasons[r.reason], Domain: objects.Domain, Metadata: map[string]string{}}
	if r.leader.Name != "" {
		info.Metadata["leader"] = r.leader.Name
	}
	s, err := status.New(codes.Unavailable, r.detail).WithDetails(info,
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err != nil { // impossible, because the code is not OK
		return status.Error(codes.Unavailable, r.detail)
	}
	return s.Err()
}
