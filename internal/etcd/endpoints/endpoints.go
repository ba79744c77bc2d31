// Package endpoints chooses the endpoint that receives a request of an etcd client: each in turn, but not one that
// does not answer while others do.
//
//	requests        1   2   3   4   5   6   7   8   9
//	endpoint a      ✓           ✓       ✓       ✓
//	endpoint b          ✓           ✓       ✓       ✓
//	endpoint c              ?───────────── no answer: passed over until it answers, or is asked again after a second
//
// The connection to a host without power looks healthy for four seconds. Of three endpoints, etcd's own client sends a
// third of the requests there for so long.
//
// An endpoint that refuses requests answers. It keeps its turn: a refusal costs no time, and the request is sent
// elsewhere.
//
// Not promised: that a request reaches a healthy endpoint. The first request to an endpoint that has just been lost
// waits for its time limit, unless its sender sends it again ([hedge]).
//
// [hedge]: https://pkg.go.dev/github.com/goverse/goverse/internal/etcd/hedge
package endpoints

import (
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/roundrobin"
)

// name is the name of the balancer among all of this process.
const name = "goverse_etcd"

// counted is the prefix of the methods of requests that etcd answers at once. Streams stand for long.
const counted = "/etcdserverpb.KV/"

// maxTurns limits how many endpoints are considered for one request.
const maxTurns = 16

func init() { balancer.Register(builder{}) } // gRPC requires that it happens here

// DialOptions returns the options with which an etcd client chooses endpoints in this way. They take the place of the
// service configuration of etcd's client, which has nothing but round_robin.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"` + name + `":{}}]}`)}
}

type builder struct{}

func (builder) Name() string { return name }

// Build returns gRPC's round_robin with another choice among the endpoints that it considers ready.
func (builder) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	chooser := &clientConn{ClientConn: cc, debts: &debts{of: map[balancer.SubConn]debt{}}}
	return balancer.Get(roundrobin.Name).Build(chooser, opts)
}

// clientConn is the connection as round_robin sees it.
type clientConn struct {
	balancer.ClientConn
	debts *debts
}

func (c *clientConn) UpdateState(s balancer.State) {
	c.debts.forget(time.Now())
	s.Picker = &picker{turns: s.Picker, debts: c.debts}
	c.ClientConn.UpdateState(s)
}

// picker chooses among the endpoints that another picker returns in turn.
type picker struct {
	turns balancer.Picker
	debts *debts
}

// Pick returns the connection to the next endpoint in turn that answers.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	chosen, err := p.turns.Pick(info)
	if err != nil {
		return chosen, err
	}
	for next, n := chosen, 1; n < maxTurns; n++ {
		if !p.debts.overdue(next.SubConn, time.Now()) {
			chosen = next
			break
		}
		if next, err = p.turns.Pick(info); err != nil || next.SubConn == chosen.SubConn {
			break // none answers: it is the turn of the first
		}
	}
	if strings.HasPrefix(info.FullMethodName, counted) {
		chosen.Done = p.debts.count(chosen)
	}
	return chosen, nil
}

// debts holds the debts of all connections that have any.
type debts struct {
	mu sync.Mutex
	of map[balancer.SubConn]debt
}

func (d *debts) overdue(c balancer.SubConn, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.of[c].overdue(now)
}

// count counts a request that is sent now. It returns what gRPC has to call when the request has ended.
func (d *debts) count(chosen balancer.PickResult) (done func(balancer.DoneInfo)) {
	c := chosen.SubConn
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of[c] = d.of[c].onSent(time.Now())
	return func(info balancer.DoneInfo) {
		d.end(c, info.BytesReceived)
		if chosen.Done != nil {
			chosen.Done(info)
		}
	}
}

func (d *debts) end(c balancer.SubConn, answered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, after := time.Now(), d.of[c]
	if answered {
		after = after.onAnswered(now)
	} else {
		after = after.onGivenUp(now)
	}
	if d.of[c] = after; after.forgotten(now) {
		delete(d.of, c)
	}
}

// forget deletes what is left of connections that have been closed.
func (d *debts) forget(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c, debt := range d.of {
		if debt.forgotten(now) {
			delete(d.of, c)
		}
	}
}
