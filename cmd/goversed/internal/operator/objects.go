package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardview"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format/formatheader"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Objects holds the objects that nodes report. Lists are never nil.
type Objects struct {
	Nodes []NodeObjects `json:"nodes"`         // all registered nodes, by address
	Key   *KeyObjects   `json:"key,omitempty"` // the requested key
}

// NodeObjects holds the objects of one node.
type NodeObjects struct {
	Address string `json:"address"`
	// Error is the reason why the node did not answer, in one line; "" if it did.
	Error    string           `json:"error,omitempty"`
	Services []ServiceObjects `json:"services"` // by name
	matches  []Object         // those with the requested key
}

// ServiceObjects counts the objects of one service on one node.
type ServiceObjects struct {
	Service string `json:"service"`
	Active  int64  `json:"active"`
	Waiting int64  `json:"waiting"` // calls
	Calls   int64  `json:"calls"`   // calls run on the node since its start
}

// KeyObjects describes a key: its shard according to etcd, and its objects according to the nodes.
type KeyObjects struct {
	Key   string `json:"key"`
	Shard int    `json:"shard"`
	Owner string `json:"owner"` // of the shard; "" if it has none
	// State is the owner's state, and Epoch the epoch of its ownership.
	State shard.OwnerState `json:"owner_state,omitempty"`
	Epoch int64            `json:"epoch"`
	// WaitsFor is the address of the former owner if that has not released the shard.
	WaitsFor string   `json:"waits_for,omitempty"`
	Objects  []Object `json:"objects"` // by node and service
}

// Object is one object on a node.
type Object struct {
	Node    string  `json:"node"`
	Service string  `json:"service"`
	State   string  `json:"state"` // activating, active, deactivating, or waiting for the shard
	Epoch   int64   `json:"epoch"`
	Waiting int64   `json:"waiting"`     // calls
	Running int64   `json:"running"`     // calls
	Age     float64 `json:"age_seconds"` // since it was activated
}

// Objects reads the members from etcd and asks each for its objects, and for those with the key if it is not
// empty. A node that does not answer within wait, or answers with an error, is listed with that error. Nodes
// are dialed with opts, without any in plain text. Objects returns the errors of Read, ErrNoNodes, and with a
// key the errors of shardview.MapOf.
func (o *Operator) Objects(ctx context.Context, wait time.Duration, key string,
	opts ...grpc.DialOption) (Objects, error) {
	snap, err := o.read(ctx)
	if err != nil {
		return Objects{}, err
	}
	if err := o.requireNodes(ctx, snap); err != nil {
		return Objects{}, err
	}
	var all Objects
	if key != "" {
		if all.Key, err = keyObjects(snap, key); err != nil {
			return Objects{}, err
		}
	}
	nodes := snap.MembersWithServer()
	all.Nodes = make([]NodeObjects, len(nodes))
	var wg sync.WaitGroup
	for i, m := range nodes {
		wg.Go(func() { all.Nodes[i] = o.describeNode(ctx, wait, m.Address, key, opts) })
	}
	wg.Wait()
	if err := context.Cause(ctx); errors.Is(err, context.Canceled) {
		return Objects{}, err
	}
	for _, n := range all.Nodes {
		if all.Key != nil {
			all.Key.Objects = append(all.Key.Objects, n.matches...)
		}
	}
	return all, nil
}

func keyObjects(s *state.Snapshot, key string) (*KeyObjects, error) {
	m, err := shardview.MapOf(s)
	if errors.Is(err, shardview.ErrNoMap) {
		return nil, fmt.Errorf("%w; goversed shards plan shows what it waits for", err)
	}
	if err != nil {
		return nil, err
	}
	n := shard.Of(key, m.Shards())
	k := &KeyObjects{Key: key, Shard: n, Epoch: m.Epoch(n), Objects: []Object{}}
	if owner, owned := m.Owner(n); owned {
		k.Owner, k.State = owner.Address, ownerState(s, owner)
	}
	if move, open := m.Move(n); open && !s.MoveDone(move) {
		k.WaitsFor = move.From.Address
	}
	return k, nil
}

func ownerState(s *state.Snapshot, owner sharding.Owner) shard.OwnerState {
	switch m := s.Member(owner.Address); {
	case m == nil || m.Incarnation != owner.Incarnation:
		return shard.Gone
	case m.Draining:
		return shard.Draining
	}
	return shard.Alive
}

func (o *Operator) describeNode(ctx context.Context, wait time.Duration, address, key string,
	opts []grpc.DialOption) NodeObjects {
	n := NodeObjects{Address: address, Services: []ServiceObjects{}}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	resp, err := o.askNode(ctx, address, key, opts)
	if err != nil {
		n.Error = logtext.OneLine(err)
		return n
	}
	for _, s := range resp.GetServices() {
		n.Services = append(n.Services, ServiceObjects{Service: s.GetName(), Active: s.GetActive(), Waiting: s.GetWaiting(),
			Calls: s.GetCalls()})
	}
	for _, a := range resp.GetObjects() {
		n.matches = append(n.matches, Object{Node: address, Service: a.GetService(), State: a.GetState(), Epoch: a.GetEpoch(),
			Waiting: a.GetWaiting(), Running: a.GetRunning(), Age: time.Duration(a.GetAge()).Seconds()})
	}
	return n
}

// askNode makes the call. The texts of its errors are for the operator.
func (o *Operator) askNode(ctx context.Context, address, key string,
	opts []grpc.DialOption) (*objectspb.DescribeResponse, error) {
	var dial dialError
	all := append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)
	all = append(all, grpc.WithNoProxy(), grpc.WithContextDialer(dial.dial))
	all = append(all, formatheader.DialOptions()...)
	// With passthrough, the dialer receives the address unchanged and resolves it itself.
	conn, err := grpc.NewClient("passthrough:///"+address, all...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is lost
	resp, err := objectspb.NewObjectsClient(conn).Describe(ctx,
		&objectspb.DescribeRequest{Prefix: o.keys.Prefix(), Key: []byte(key)})
	switch failed := dial.err.Load(); {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil:
		return nil, errors.New("no answer in time")
	case failed != nil:
		return nil, *failed
	case status.Code(err) == codes.Unimplemented:
		return nil, errors.New("it runs a version without objects")
	}
	said := status.Convert(err).Message()
	if status.Code(err) == codes.Unavailable && objects.ReasonOf(err) == "" {
		return nil, fmt.Errorf("no gRPC there, or other TLS settings: %s", said)
	}
	return nil, errors.New(said)
}

// dialError dials and stores the error, which gRPC only quotes within a longer text.
type dialError struct{ err atomic.Pointer[error] }

func (d *dialError) dial(ctx context.Context, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		d.err.Store(&op.Err)
	}
	return conn, err
}

// CountAnswered returns the number of nodes that answered, and of active objects on them.
func (o Objects) CountAnswered() (nodes int, active int64) {
	for _, n := range o.Nodes {
		if n.Error == "" {
			nodes++
		}
		for _, s := range n.Services {
			active += s.Active
		}
	}
	return nodes, active
}

func (o Objects) silentNodes() []NodeObjects {
	return slices.DeleteFunc(slices.Clone(o.Nodes), func(n NodeObjects) bool { return n.Error == "" })
}
