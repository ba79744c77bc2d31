package route

import (
	"context"
	"encoding/binary"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/state/format/formatheader"
)

// Headers of streaming calls, besides the key's.
const (
	chainHeader      = "goverse-chain-bin"
	generationHeader = "goverse-generation"
	// ForwardedHeader marks a call from a sender that follows the shard map, such as a forwarding node. The
	// call is not forwarded again.
	ForwardedHeader = "goverse-forwarded"
	// prefixHeader identifies the cluster that such a call is for.
	prefixHeader = "goverse-prefix-bin"
)

// NewStream implements the method of grpc.ClientConnInterface for the object with that key. A streaming call is
// a gRPC stream of its own to the owner's node, even if that is this node.
func (r *Router) NewStream(ctx context.Context, key string, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	if r.cfg.Stream == nil {
		return r.openStream(ctx, &host.Call{Name: method, Key: key}, desc, opts)
	}
	return r.cfg.Stream(ctx, desc, r.dummyConn, method,
		func(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string,
			opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return r.openStream(ctx, &host.Call{Name: method, Key: key}, desc, opts)
		}, opts...)
}

// ForwardStream opens a streaming call from outside at the owner of its key.
func (r *Router) ForwardStream(ctx context.Context, key, method string) (grpc.ClientStream, error) {
	return r.openStream(ctx, &host.Call{Name: method, Key: key, Outside: true},
		&grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, nil)
}

// openStream opens a streaming call at the owner of its key.
func (r *Router) openStream(ctx context.Context, call *host.Call, desc *grpc.StreamDesc,
	opts []grpc.CallOption) (grpc.ClientStream, error) {
	finish, others := splitFinish(ctx, opts)
	s := &objectStream{ctx: ctx, desc: desc, opts: others, finish: finish, attempt: r.newAttempt(ctx, call)}
	if err := s.openStream(); err != nil {
		finish(err)
		return nil, err
	}
	return s, nil
}

// openStream opens the stream at the present place of the object.
func (a *callAttempt) openStream(ctx context.Context, desc *grpc.StreamDesc, opts []grpc.CallOption) (*nodeStream,
	error) {
	r := a.router
	n, known := r.cfg.Map.Shard(a.call.Key)
	if !known {
		return nil, a.awaitRetry(ctx, SeenOwner{}, nil)
	}
	a.call.Shard = n
	owner, generation := r.cfg.Map.Owner(n)
	if r.cfg.Host != nil && r.cfg.Host.MustRunHere(n, a.call.Chain) {
		owner = r.cfg.Self
	} else if former := a.askFormer(owner, generation); former != "" {
		owner, a.askedFormer = former, generation
	}
	seen := SeenOwner{owner, generation, 0}
	if owner == "" {
		return nil, a.awaitRetry(ctx, seen, nil)
	}
	connect := r.cfg.Pool.OwnConn
	if a.call.Outside {
		connect = r.cfg.Pool.Conn
	}
	conn, err := connect(owner)
	if err != nil {
		return nil, a.awaitRetry(ctx, seen, err)
	}
	a.call.Generation = generation
	stream, err := conn.NewStream(withStreamHeaders(ctx, r.cfg.Prefix, a.call), desc, a.call.Name, opts...)
	if err == nil {
		return &nodeStream{ClientStream: stream, conn: conn, owner: owner, generation: generation}, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	return nil, a.awaitRetry(ctx, seen, err)
}

// withStreamHeaders adds the headers of a streaming call.
func withStreamHeaders(ctx context.Context, prefix string, c *host.Call) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	md.Delete(objects.KeyHeader)
	md.Set(objects.BinaryKeyHeader, c.Key)
	md.Set(generationHeader, strconv.FormatInt(c.Generation, 10))
	if len(c.Chain) > 0 {
		raw := make([]byte, 0, 8*len(c.Chain))
		for _, turn := range c.Chain {
			raw = binary.BigEndian.AppendUint64(raw, turn)
		}
		md.Set(chainHeader, string(raw))
	}
	md.Set(ForwardedHeader, "1")
	md.Set(prefixHeader, prefix)
	return metadata.NewOutgoingContext(ctx, md)
}

// CallHeaders holds the contents of a call's headers.
type CallHeaders struct {
	Key        string
	Chain      []uint64
	Generation int64
	Forwarded  bool
	Prefix     string      // of the cluster that a forwarded call is for
	Metadata   metadata.MD // the other headers
}

// ReadHeaders reads the headers of a call. Its error is the status for the caller.
func ReadHeaders(ctx context.Context) (CallHeaders, error) {
	md, _ := metadata.FromIncomingContext(ctx) // a copy
	keys := append(md.Get(objects.KeyHeader), md.Get(objects.BinaryKeyHeader)...)
	if len(keys) > 1 {
		return CallHeaders{}, badCallError("the call has several keys: send one header, " + objects.KeyHeader + " or " +
			objects.BinaryKeyHeader)
	}
	if len(keys) == 0 {
		return CallHeaders{}, badCallError("the call has no key: say which object is meant, in the header " +
			objects.KeyHeader)
	}
	in := CallHeaders{Key: keys[0], Metadata: md}
	if err := CheckKey(in.Key); err != nil {
		return CallHeaders{}, err
	}
	if in.Forwarded = len(md.Get(ForwardedHeader)) > 0; in.Forwarded {
		if err := in.readForwarderHeaders(md); err != nil {
			return CallHeaders{}, err
		}
	}
	for _, name := range []string{objects.KeyHeader, objects.BinaryKeyHeader, chainHeader, generationHeader,
		ForwardedHeader, prefixHeader, formatheader.Name} {
		md.Delete(name)
	}
	return in, nil
}

// readForwarderHeaders reads the headers that only nodes, and clients that follow the shard map, may set. Of other
// calls only the key counts.
func (in *CallHeaders) readForwarderHeaders(md metadata.MD) error {
	if raw := md.Get(chainHeader); len(raw) > 0 {
		if len(raw[0])%8 != 0 {
			return badCallError("the header " + chainHeader + " is malformed")
		}
		if err := CheckChain(len(raw[0]) / 8); err != nil {
			return err
		}
		for b := []byte(raw[0]); len(b) > 0; b = b[8:] {
			in.Chain = append(in.Chain, binary.BigEndian.Uint64(b))
		}
	}
	if text := md.Get(generationHeader); len(text) > 0 {
		generation, err := strconv.ParseInt(text[0], 10, 64)
		if err != nil || generation < 0 {
			return badCallError("the header " + generationHeader + " is malformed")
		}
		in.Generation = generation
	}
	if prefix := md.Get(prefixHeader); len(prefix) > 0 {
		in.Prefix = prefix[0]
	}
	return nil
}
