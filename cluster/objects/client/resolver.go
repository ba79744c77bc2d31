package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc/resolver"
)

// scheme is that of the targets which Resolver resolves, and leaderEndpoint the only endpoint there is.
const (
	scheme         = "goverse"
	leaderEndpoint = "leader"
)

// errNoLeader is reported to connections while nobody leads.
var errNoLeader = errors.New("goverse: the cluster has no leader at present; make calls with WaitForReady to wait " +
	"for one")

// Resolver resolves the target goverse:///leader to the address of the node that leads the cluster:
//
//	conn, err := grpc.NewClient("goverse:///leader", grpc.WithResolvers(c.Resolver()), credentials)
//
// The connection follows the leader: when another node leads, the next calls go there. Calls that run go on at the
// former one as long as they can: gRPC closes its connection when they have ended. As long as no leader has been
// known, calls wait; where there was one and is none now, calls without grpc.WaitForReady fail with UNAVAILABLE,
// and those with it wait. A former leader that stands still keeps the calls that run there: give them deadlines, or
// the connection keepalive parameters. With TLS the certificate has to be for the host of the node's advertise
// address, as elsewhere.
//
// Any other target of the scheme is an error that calls on the connection get. The connection is the caller's to
// close; one that outlives the client stays with the leader that was known then. The builder may be used for any
// number of connections.
func (c *Client) Resolver() resolver.Builder { return &builder{c} }

// builder implements resolver.Builder.
type builder struct{ c *Client }

// Scheme implements resolver.Builder.
func (b *builder) Scheme() string { return scheme }

// Build implements resolver.Builder.
func (b *builder) Build(target resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver,
	error) {
	if target.URL.Host != "" || target.Endpoint() != leaderEndpoint {
		return nil, fmt.Errorf("goverse: target %q is not known: use %s:///%s; for objects use Client.At", target.String(),
			scheme, leaderEndpoint)
	}
	ctx, cancel := context.WithCancel(b.c.ctx)
	r := &leaderResolver{cancel: cancel}
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.c.ctx.Err() != nil {
		cancel()
		return nil, ErrClosed
	}
	r.wg.Add(1)
	b.c.wg.Go(func() {
		defer r.wg.Done()
		b.c.table.report(ctx, conn)
	})
	return r, nil
}

// leaderResolver implements resolver.Resolver.
type leaderResolver struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// ResolveNow implements resolver.Resolver. There is nothing to ask: changes come by themselves.
func (r *leaderResolver) ResolveNow(resolver.ResolveNowOptions) {}

// Close implements resolver.Resolver.
func (r *leaderResolver) Close() {
	r.cancel()
	r.wg.Wait()
}

// report reports the leader to a connection, and each other one, until ctx ends.
func (t *table) report(ctx context.Context, conn resolver.ClientConn) {
	reported := ""
	for {
		r := t.current.Load()
		switch leader := r.leader; {
		case leader == reported:
		case leader == "":
			_ = conn.UpdateState(resolver.State{}) // closes the connection to the former leader, and is an error by design
			conn.ReportError(errNoLeader)
		default:
			// What the connection does with it is its own matter: it is not to be asked again.
			_ = conn.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: leader, ServerName: leader}}})
		}
		reported = r.leader
		select {
		case <-r.replaced:
		case <-ctx.Done():
			return
		}
	}
}
