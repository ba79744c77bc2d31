//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/test/probepb"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
	objectspb "github.com/goverse/goverse/proto/goverse/objects/v1"
)

// The pace of each attack at each node. Together they are less than a caller without an evil mind may do.
const (
	forgeEvery = 100 * time.Millisecond
	breakEvery = 250 * time.Millisecond
	linkEvery  = 500 * time.Millisecond
	// unreadStreams are kept open at each node, of so many messages of so many bytes.
	unreadStreams  = 8
	unreadMessages = 64
	unreadBytes    = 100_000
	// unreadFor is how long such a stream is held until another one is opened.
	unreadFor = 3 * time.Second
)

// hostile is an outsider that attacks every node as any program can that reaches its port: with forged headers, with
// watches that it breaks, with streams that it does not read, and with links full of forged calls.
type hostile struct {
	nodes []*chaosNode

	cancel context.CancelFunc
	wg     sync.WaitGroup

	// What was done, so that a run in which nothing was is noticed.
	forged, broken, unread, links atomic.Int64
}

func newHostile(nodes []*chaosNode) *hostile {
	ctx, cancel := context.WithCancel(context.Background())
	h := &hostile{nodes: nodes, cancel: cancel}
	for _, n := range nodes {
		rnd := rand.New(rand.NewPCG(rand.Uint64(), 0))
		h.repeat(ctx, n, forgeEvery, &h.forged, func(ctx context.Context, conn *grpc.ClientConn) error {
			return forgeStream(ctx, conn, rnd)
		})
		h.repeat(ctx, n, breakEvery, &h.broken, h.breakWatch)
		h.repeat(ctx, n, linkEvery, &h.links, forgeLink)
		for range unreadStreams {
			h.repeat(ctx, n, glance, &h.unread, leaveUnread)
		}
	}
	return h
}

// repeat attacks one node at that pace, by a connection of its own, until ctx ends. It counts the attacks that reached
// their aim.
func (h *hostile) repeat(ctx context.Context, n *chaosNode, every time.Duration, done *atomic.Int64,
	attack func(ctx context.Context, conn *grpc.ClientConn) error) {
	h.wg.Go(func() {
		conn, err := grpc.NewClient(n.address(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: callTimeout,
				Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, MaxDelay: 200 * time.Millisecond, Multiplier: 2}}))
		if err != nil {
			return // said by the count
		}
		defer func() { _ = conn.Close() }() // nothing was kept in it
		for ctx.Err() == nil {
			attempt, cancel := context.WithTimeout(ctx, callTimeout+unreadFor)
			if attack(attempt, conn) == nil {
				done.Add(1)
			}
			cancel()
			hold(ctx, every)
		}
	})
}

// forgeStream opens a stream to an object of the attacker's own, in some shard, whose headers say what only nodes know,
// and disconnects in the middle.
func forgeStream(ctx context.Context, conn *grpc.ClientConn, rnd *rand.Rand) error {
	headers := []string{
		objects.KeyHeader, fmt.Sprint("hostile-", rnd.IntN(objectCount)),
		"goverse-generation", strconv.FormatInt(math.MaxInt64, 10),
		"goverse-chain-bin", forgedChain(rnd),
	}
	if rnd.IntN(2) == 0 {
		headers = append(headers, "goverse-forwarded", "1", "goverse-prefix-bin", prefix)
	}
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, headers...))
	defer cancel()
	stream, err := probepb.NewProbeClient(conn).Chat(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&probepb.Blob{Data: []byte("hostile")}); err != nil {
		return err
	}
	hold(ctx, time.Duration(rnd.IntN(100))*time.Millisecond)
	return nil
}

// forgedChain is a chain of turns that nobody has given out.
func forgedChain(rnd *rand.Rand) string {
	chain := make([]byte, 8*16)
	for i := range chain {
		chain[i] = byte(rnd.Uint32())
	}
	return string(chain)
}

// breakWatch watches a node in the name of another one, and disconnects without a goodbye.
func (h *hostile) breakWatch(ctx context.Context, conn *grpc.ClientConn) error {
	name := h.identify(ctx, h.nodes[rand.IntN(len(h.nodes))])
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // without a goodbye
	stream, err := nodepb.NewNodeClient(conn).Watch(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&nodepb.WatchRequest{InstanceId: name}); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.Send(&nodepb.WatchRequest{InstanceId: name}); err != nil { // from here on it is missed
		return err
	}
	hold(ctx, glance)
	return nil
}

// identify is the instance id of a node, which it says to anybody.
func (h *hostile) identify(ctx context.Context, n *chaosNode) string {
	conn, err := grpc.NewClient(n.address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 10*glance)
	defer cancel()
	said, err := nodepb.NewNodeClient(conn).Identify(ctx, &nodepb.IdentifyRequest{})
	if err != nil {
		return ""
	}
	return said.GetInstanceId()
}

// leaveUnread asks for many messages and reads none.
func leaveUnread(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, objects.KeyHeader,
		fmt.Sprint("hostile-", rand.IntN(objectCount))))
	defer cancel()
	stream, err := probepb.NewProbeClient(conn).Download(ctx, &probepb.DownloadRequest{Blobs: unreadMessages,
		Bytes: unreadBytes, Stay: true})
	if err != nil {
		return err
	}
	if _, err := stream.Header(); err != nil {
		return err
	}
	hold(ctx, unreadFor)
	return nil
}

// forgeLink sends calls over a link, some of them unfinished, and reads no reply.
func forgeLink(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := objectspb.NewObjectsClient(conn).Link(ctx)
	if err != nil {
		return err
	}
	calls := []*objectspb.Call{}
	for id := range uint64(32) {
		calls = append(calls, &objectspb.Call{Id: id + 1, Method: probepb.Probe_Echo_FullMethodName,
			Key: fmt.Append(nil, "hostile-", id), Request: make([]byte, 1000), More: id%2 == 0, Timeout: math.MaxInt64,
			Generation: math.MaxInt64, Chain: []uint64{rand.Uint64(), rand.Uint64()}})
	}
	request := &objectspb.LinkRequest{Hello: &objectspb.Hello{Prefix: prefix}, Calls: calls, Cancelled: []uint64{99, 1, 1}}
	if err := stream.Send(request); err != nil {
		return err
	}
	hold(ctx, 2*linkEvery)
	return nil
}

// stop ends the attacks.
func (h *hostile) stop() {
	h.cancel()
	h.wg.Wait()
}

// idle is an error if one of the attacks was never carried out.
func (h *hostile) idle() error {
	if min(h.forged.Load(), h.broken.Load(), h.unread.Load(), h.links.Load()) == 0 {
		return errors.New("an attack of the hostile outsider was never carried out: " + h.String())
	}
	return nil
}

func (h *hostile) String() string {
	return fmt.Sprintf("%d forged streams, %d broken watches, %d unread streams, %d forged links", h.forged.Load(),
		h.broken.Load(), h.unread.Load(), h.links.Load())
}
