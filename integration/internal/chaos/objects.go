//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/cluster/objects/state/etcd"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// statePrefix is the prefix of the objects' stored counts.
	statePrefix = "/chaos/objects"
	// objectCount is the number of objects. The last ones are called so rarely that they are deactivated when
	// idle.
	objectCount = 16
	idleAfter   = 300 * time.Millisecond

	// callEvery is the interval of the calls of each caller outside of the cluster.
	callEvery = 20 * time.Millisecond
	// callTimeout limits one attempt; the next attempt goes to another node.
	callTimeout = 2 * time.Second
	// answerWithin limits the time, after the last fault, until every object answers through every node.
	answerWithin = 30 * time.Second
)

// subjectOf returns the subject of an object in the history.
func subjectOf(key string) history.Subject {
	return history.Object(probepb.Probe_ServiceDesc.ServiceName, key)
}

func objectKey(n int) string { return fmt.Sprint("object-", n) }

// objectsConfig deactivates idle objects soon.
func objectsConfig() cluster.ObjectsConfig { return cluster.ObjectsConfig{IdleAfter: idleAfter} }

// hostObjects makes a node host counting objects.
func hostObjects(c *cluster.Cluster, client *clientv3.Client, of *history.Objects) error {
	store, err := etcd.New(etcd.Config{Client: client, Prefix: statePrefix})
	if err != nil {
		return err
	}
	objects.Register(c, probepb.RegisterProbeServer, func(ctx context.Context, o *objects.Object) (probepb.ProbeServer,
		error) {
		n := &countingObject{object: o, activation: of.Activated(o)}
		if n.state, err = state.Load(ctx, store, o, &wrapperspb.Int64Value{}); err != nil {
			n.activation.Deactivated()
			return nil, err
		}
		return n, nil
	})
	return nil
}

// countingObject is an object that stores a number in etcd.
type countingObject struct {
	probepb.UnimplementedProbeServer
	object     *objects.Object
	activation *history.Activation
	state      *state.State[*wrapperspb.Int64Value]
}

// Add implements probepb.ProbeServer. It adds the amount under the request's id; with amount 0 it returns the
// value in memory.
func (n *countingObject) Add(ctx context.Context, req *probepb.AddRequest) (*probepb.AddResponse, error) {
	if req.GetAmount() == 0 {
		return &probepb.AddResponse{Sum: n.state.Value().GetValue()}, n.state.Err()
	}
	reply, err := state.Do(ctx, n.state, req.GetRequest(), func(context.Context) (*probepb.AddResponse, error) {
		n.state.Value().Value += req.GetAmount()
		return &probepb.AddResponse{Sum: n.state.Value().GetValue()}, nil
	})
	if n.state.Err() != nil {
		n.object.Deactivate()
	}
	return reply, err
}

// Chat implements probepb.ProbeServer for the hostile outsider, which leaves before the end.
func (n *countingObject) Chat(stream grpc.BidiStreamingServer[probepb.Blob, probepb.Blob]) error {
	return probepb.EchoChat(stream)
}

// Download implements probepb.ProbeServer for the hostile outsider, which reads nothing.
func (n *countingObject) Download(req *probepb.DownloadRequest, stream grpc.ServerStreamingServer[probepb.Blob]) error {
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	blob := &probepb.Blob{Data: make([]byte, min(req.GetBytes(), unreadBytes))}
	for range min(req.GetBlobs(), unreadMessages) {
		if err := stream.Send(blob); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

// Deactivated implements objects.Deactivator.
func (n *countingObject) Deactivated(context.Context, objects.Reason) { n.activation.Deactivated() }

// outsideCallers calls the cluster's objects like any gRPC client, through each of the nodes.
type outsideCallers struct {
	rec   *history.Recorder
	conns []*grpc.ClientConn

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newOutsideCallers(rec *history.Recorder, nodes []*chaosNode, callers int) (*outsideCallers, error) {
	o := &outsideCallers{rec: rec}
	for _, n := range nodes {
		conn, err := grpc.NewClient(n.address(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: callTimeout,
				Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, MaxDelay: 200 * time.Millisecond, Multiplier: 2}}))
		if err != nil {
			return nil, errors.Join(err, o.close())
		}
		o.conns = append(o.conns, conn)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	for range callers {
		o.wg.Go(func() { o.callRepeatedly(ctx, rand.New(rand.NewPCG(rand.Uint64(), 0))) })
	}
	return o, nil
}

// callRepeatedly makes one call after the other until ctx ends. It does not wait for the last one then.
func (o *outsideCallers) callRepeatedly(ctx context.Context, rnd *rand.Rand) {
	tick := time.NewTicker(callEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		r := rnd.Float64()
		adds := rnd.IntN(4) > 0
		// ctx has ended
		_ = o.callUntilAnswered(ctx, objectKey(int(objectCount*r*r*r)), adds, rnd.IntN(len(o.conns)), callTimeout)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// callUntilAnswered repeats one call through one node after the other until it is answered or ctx ends.
func (o *outsideCallers) callUntilAnswered(ctx context.Context, key string, adds bool, through int,
	timeout time.Duration) error {
	req := &probepb.AddRequest{}
	if adds {
		req.Amount, req.Request = 1, fmt.Sprintf("%x", rand.Uint64())
	}
	answered := o.rec.ObjectCall(subjectOf(key), adds)
	for ; ; through++ {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		reply, err := probepb.NewProbeClient(o.conns[through%len(o.conns)]).Add(metadata.AppendToOutgoingContext(attempt,
			objects.KeyHeader, key), req)
		cancel()
		if err == nil {
			answered(reply.GetSum())
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("object %s does not answer: %w", key, err)
		}
		wait.For(ctx, pollInterval)
	}
}

// awaitAnswers waits until every object has answered through every node.
func (o *outsideCallers) awaitAnswers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	errs := make([]error, objectCount)
	var wg sync.WaitGroup
	for n := range objectCount {
		wg.Go(func() {
			for through := range o.conns {
				one := &outsideCallers{rec: o.rec, conns: o.conns[through : through+1]}
				errs[n] = errors.Join(errs[n], one.callUntilAnswered(ctx, objectKey(n), false, 0, callTimeout))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// stopCalls ends the calls and waits for the callers.
func (o *outsideCallers) stopCalls() {
	if o.cancel != nil {
		o.cancel()
	}
	o.wg.Wait()
}

// close ends the calls and closes the connections.
func (o *outsideCallers) close() error {
	o.stopCalls()
	var errs []error
	for _, c := range o.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
