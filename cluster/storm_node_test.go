package cluster_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/leaderonly"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/leak"
	"github.com/goverse/goverse/node"
)

// certs holds the certificates of nodes that serve TLS.
type certs struct {
	pair tls.Certificate
	pool *x509.CertPool
}

func newCerts() *certs {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.StartTLS()
	defer s.Close()
	c := &certs{pair: s.TLS.Certificates[0], pool: x509.NewCertPool()}
	c.pool.AddCert(s.Certificate())
	return c
}

// client returns the credentials of a node's client.
func (c *certs) client() credentials.TransportCredentials {
	if c == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(&tls.Config{RootCAs: c.pool})
}

// stormNode is one node in a storm, made with only the public API.
type stormNode struct {
	w       *storm
	label   string // of its goroutines
	cluster *cluster.Cluster
	http    *httpapi.Server
	shares  bool // it shares an etcd client, and so its streams, with others
	plan    plan
}

// plan is the sequence of events for a node. All of it is drawn before the round.
type plan struct {
	stopFirst bool            // before Start
	cut       time.Duration   // of Start's context, 0: none
	stopAt    time.Duration   // after the round's beginning
	stops     []time.Duration // time limits of the stops, which all begin at stopAt
}

func (w *storm) newNode(i int) *stormNode {
	n := &stormNode{w: w, label: fmt.Sprintf("storm-%d-%d", w.round, i)}
	cfg := cluster.Config{EtcdAddress: w.c.Etcd().Endpoint(), EtcdPrefix: clustertest.Prefix, LeaderElectionTTL: stormTTL,
		WorkTimeout: 500 * time.Millisecond, DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(w.certs.client())},
		Sharding: cluster.Sharding{Shards: 32, Window: 20 * time.Millisecond, DrainTimeout: 100 * time.Millisecond,
			OnAcquire: func(context.Context, int, int64) {}, OnRelease: func(context.Context, int) {}}}
	switch w.rnd.IntN(3) {
	case 0:
		cfg.Client = w.c.Client()
		n.shares = true
	case 1:
		cfg.CrashDetection.Off = w.rnd.IntN(2) == 0
	}
	nodeConfig := node.Config{AdvertiseAddress: "127.0.0.1:0"}
	if w.certs != nil {
		nodeConfig.ServerOptions = []grpc.ServerOption{grpc.Creds(credentials.NewServerTLSFromCert(&w.certs.pair))}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	leak.Labelled(n.label, func() {
		gn, err := node.NewNode(nodeConfig)
		require.NoError(w.t, err)
		n.cluster, err = cluster.NewClusterWithNode(cfg, gn)
		require.NoError(w.t, err)
		mux := http.NewServeMux()
		mux.Handle("/", httpapi.New(n.cluster, httpapi.Options{}))
		mux.Handle("/leader-only", leaderonly.Handler(leaderonly.Cluster(n.cluster), http.NotFoundHandler(),
			leaderonly.Options{Applies: leaderonly.All, Elsewhere: leaderonly.Redirect}))
		n.http = httpapi.Serve(l, mux, nil)
	})
	p := plan{stopFirst: w.rnd.IntN(12) == 0, stopAt: time.Duration(w.rnd.IntN(1500)) * time.Millisecond}
	if w.rnd.IntN(5) < 2 {
		p.cut = time.Duration(1+w.rnd.IntN(150)) * time.Millisecond
	}
	for range 1 + w.rnd.IntN(3) {
		// The longest limit is for a stop that is not cut short.
		bounds := []time.Duration{0, time.Duration(w.rnd.IntN(300)) * time.Millisecond, stormPatience, stormPatience}
		p.stops = append(p.stops, bounds[w.rnd.IntN(len(bounds))])
	}
	n.plan = p
	return n
}

// live runs the node until it is down.
func (n *stormNode) live() {
	var stops sync.WaitGroup
	if n.plan.stopFirst {
		n.w.count.early.Add(1)
		leak.Labelled(n.label, func() { assert.NoError(n.w.t, n.cluster.Stop(context.Background())) })
		assert.ErrorIs(n.w.t, n.cluster.Start(context.Background()), cluster.ErrStarted)
	} else {
		starting, cut := context.WithCancelCause(context.Background())
		defer cut(nil)
		if n.plan.cut > 0 {
			timer := time.AfterFunc(n.plan.cut, func() { cut(errStormCut) })
			defer timer.Stop()
		}
		started := make(chan struct{})
		go leak.Labelled(n.label, func() {
			defer close(started)
			err := n.cluster.Start(starting)
			switch {
			case err == nil:
				n.w.count.starts.Add(1)
			case errors.Is(err, cluster.ErrStarted):
				n.w.count.early.Add(1) // Stop was faster
			case starting.Err() != nil:
				n.w.count.cut.Add(1)
			default:
				n.w.t.Errorf("Start: %v", err)
			}
		})
		moment := time.NewTimer(n.plan.stopAt)
		defer moment.Stop()
		<-moment.C
		for _, bound := range n.plan.stops {
			stops.Go(func() { n.stop(bound, cut, started) })
		}
		stops.Wait()
		<-started
		_ = n.cluster.Stop(context.Background()) // it is already down and returns the earlier result
	}
	brief, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_ = n.http.Stop(brief) // connections from outside are cut off
	if !n.shares {
		n.lookForGoroutines()
	}
}

// stop makes one of the node's stops, which may run concurrently with others.
func (n *stormNode) stop(bound time.Duration, cut context.CancelCauseFunc, started <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	began := time.Now()
	var err error
	leak.Labelled(n.label, func() { err = n.cluster.Stop(ctx) })
	if errors.Is(err, cluster.ErrNotStarted) {
		// It is starting: Stop's error asks to end the context of Start.
		cut(errStormCut)
		<-started
		leak.Labelled(n.label, func() { err = n.cluster.Stop(ctx) })
	}
	if took := time.Since(began); took > bound+15*time.Second {
		n.w.t.Errorf("a stop bounded by %v took %v: %v", bound, took, err)
	}
	n.w.count.stops.Add(1)
	if err != nil {
		n.w.count.cutStops.Add(1)
		if bound == stormPatience && time.Since(began) >= stormPatience {
			n.w.t.Errorf("a stop with all the time that it needs was cut short: %v", err)
		}
	}
}

// lookForGoroutines fails the test if goroutines of this node are left, while its guests are still connected.
func (n *stormNode) lookForGoroutines() {
	began := time.Now()
	first := leak.Stacks(n.label)
	left := leak.AwaitNone(func() string { return leak.Stacks(n.label) }, goroutinesLeave)
	took := time.Since(began)
	for {
		longest := n.w.count.longest.Load()
		if int64(took) <= longest || n.w.count.longest.CompareAndSwap(longest, int64(took)) {
			break
		}
	}
	if left != "" {
		n.w.t.Errorf("goroutines of %s are left after %v (round %d):\n%s", n.label, took, n.w.round, left)
	} else if first != "" {
		n.w.t.Logf("gone within %v of Stop:\n%s", took, first)
	}
}
