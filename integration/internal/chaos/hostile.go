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
	"github.com/goverse/goverse/internal/wait"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
	objectspb "github.com/goverse/goverse/proto/goverse/objects/v1"
)

// These intervals set the pace of each attack at each node. Together the attacks are less load than a
// well-behaved caller may cause.
const (
	forgeEvery = 100 * time.Millisecond
	breakEvery = 250 * time.Millisecond
	linkEvery  = 500 * time.Millisecond
	// unreadStreams are kept open at each node, with unreadMessages messages of unreadBytes bytes each.
	unreadStreams  = 8
	unreadMessages = 64
	unreadBytes    = 100_000
	// unreadFor is the time that such a stream is kept before another one replaces it.
	unreadFor = 3 * time.Second
)

// attacker is an outsider that attacks every node as any program can that reaches its port: with forged headers,
// watches that it breaks, streams that it does not read, and links full of forged calls.
type attacker struct {
	nodes []*chaosNode

	cancel context.CancelFunc
	wg     sync.WaitGroup

	// These count the attacks carried out, to detect a run without any.
	forged, broken, unread, links atomic.Int64
}

func newAttacker(nodes []*chaosNode) *attacker {
	ctx, cancel := context.WithCancel(context.Background())
	h := &attacker{nodes: nodes, cancel: cancel}
	for _, n := range nodes {
		rnd := rand.New(rand.NewPCG(rand.Uint64(), 0))
		h.repeatAttack(ctx, n, forgeEvery, &h.forged, func(ctx context.Context, conn *grpc.ClientConn) error {
			return forgeStream(ctx, conn, rnd)
		})
		h.repeatAttack(ctx, n, breakEvery, &h.broken, h.breakWatch)
		h.repeatAttack(ctx, n, linkEvery, &h.links, forgeLink)
		for range unreadStreams {
			h.repeatAttack(ctx, n, pollInterval, &h.unread, leaveUnread)
		}
	}
	return h
}

// repeatAttack attacks one node at the given interval, on a connection of its own, until ctx ends. It counts the
// attacks that were carried out.
func (h *attacker) repeatAttack(ctx context.Context, n *chaosNode, every time.Duration, done *atomic.Int64,
	attack func(ctx context.Context, conn *grpc.ClientConn) error) {
	h.wg.Go(func() {
		conn, err := grpc.NewClient(n.address(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: callTimeout,
				Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, MaxDelay: 200 * time.Millisecond, Multiplier: 2}}))
		if err != nil {
			return // checkAllAttacked then reports it
		}
		defer func() { _ = conn.Close() }() // it holds no data
		for ctx.Err() == nil {
			attempt, cancel := context.WithTimeout(ctx, callTimeout+unreadFor)
			if attack(attempt, conn) == nil {
				done.Add(1)
			}
			cancel()
			wait.For(ctx, every)
		}
	})
}

// forgeStream opens a stream to an object of the attacker's own, in some shard, with headers that only nodes
// send, and disconnects before its end.
func forgeStream(ctx context.Context, conn *grpc.ClientConn, rnd *rand.Rand) error {
	headers := []string{
		objects.KeyHeader, fmt.Sprint("hostile-", rnd.IntN(objectCount)),
		"goverse-generation", strconv.FormatInt(math.MaxInt64, 10),
		"goverse-chain-bin", forgedChain(rnd),
	}
	if rnd.IntN(2) == 0 {
		headers = append(headers, "goverse-forwarded", "1", "goverse-prefix-bin", clusterPrefix)
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
	wait.For(ctx, time.Duration(rnd.IntN(100))*time.Millisecond)
	return nil
}

// forgedChain returns a chain of turns that no node has issued.
func forgedChain(rnd *rand.Rand) string {
	chain := make([]byte, 8*16)
	for i := range chain {
		chain[i] = byte(rnd.Uint32())
	}
	return string(chain)
}

// breakWatch watches a node in the name of another one, and disconnects without a goodbye.
func (h *attacker) breakWatch(ctx context.Context, conn *grpc.ClientConn) error {
	name := h.identify(ctx, h.nodes[rand.IntN(len(h.nodes))])
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // without sending a goodbye
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
	if err := stream.Send(&nodepb.WatchRequest{InstanceId: name}); err != nil { // now it is a watcher
		return err
	}
	wait.For(ctx, pollInterval)
	return nil
}

// identify returns the instance id of a node, which any caller may request.
func (h *attacker) identify(ctx context.Context, n *chaosNode) string {
	conn, err := grpc.NewClient(n.address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 10*pollInterval)
	defer cancel()
	said, err := nodepb.NewNodeClient(conn).Identify(ctx, &nodepb.IdentifyRequest{})
	if err != nil {
		return ""
	}
	return said.GetInstanceId()
}

// leaveUnread requests many messages and reads none.
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
	wait.For(ctx, unreadFor)
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
	request := &objectspb.LinkRequest{Hello: &objectspb.Hello{Prefix: clusterPrefix}, Calls: calls,
		Cancelled: []uint64{99, 1, 1}}
	if err := stream.Send(request); err != nil {
		return err
	}
	wait.For(ctx, 2*linkEvery)
	return nil
}

// stopAttacks ends the attacks and waits for them.
func (h *attacker) stopAttacks() {
	h.cancel()
	h.wg.Wait()
}

// checkAllAttacked returns an error if one of the attacks was never carried out.
func (h *attacker) checkAllAttacked() error {
	if min(h.forged.Load(), h.broken.Load(), h.unread.Load(), h.links.Load()) == 0 {
		return errors.New("an attack of the hostile outsider was never carried out: " + h.String())
	}
	return nil
}

func (h *attacker) String() string {
	return fmt.Sprintf("%d forged streams, %d broken watches, %d unread streams, %d forged links", h.forged.Load(),
		h.broken.Load(), h.unread.Load(), h.links.Load())
}
