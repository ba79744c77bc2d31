package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc/resolver"
)

// scheme is the scheme of the targets that Resolver resolves, and leaderEndpoint the only endpoint in it.
const (
	scheme         = "goverse"
	leaderEndpoint = "leader"
)

// errNoLeader is reported to connections while no node leads.
var errNoLeader = errors.New("goverse: the cluster has no leader at present; make calls with WaitForReady to wait " +
	"for one")

// Resolver returns a resolver for the target goverse:///leader, which is the address of the cluster's leader:
//
//	conn, err := grpc.NewClient("goverse:///leader", grpc.WithResolvers(c.Resolver()), credentials)
//
// The connection follows the leader: when another node leads, further calls go there. Running calls continue at
// the former leader as long as they can; gRPC closes that connection when they have ended. A former leader that
// stands still keeps its running calls: give them deadlines, or the connection keepalive parameters.
//
// Until a first leader is known, calls wait. While there is no leader any more, calls without grpc.WaitForReady
// fail with UNAVAILABLE, and calls with it wait. With TLS the certificate must be valid for the host of the
// node's advertise address, as elsewhere.
//
// Other targets of the scheme make calls on the connection fail. The caller must close the connection. A
// connection that outlives the client stays with the last known leader. The builder may be used for any number
// of connections.
func (c *Client) Resolver() resolver.Builder { return &leaderBuilder{c} }

// leaderBuilder implements resolver.Builder.
type leaderBuilder struct{ c *Client }

// Scheme implements resolver.Builder.
func (b *leaderBuilder) Scheme() string { return scheme }

// Build implements resolver.Builder.
func (b *leaderBuilder) Build(target resolver.Target, conn resolver.ClientConn,
	_ resolver.BuildOptions) (resolver.Resolver,
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
		b.c.table.reportLeader(ctx, conn)
	})
	return r, nil
}

// leaderResolver implements resolver.Resolver.
type leaderResolver struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// ResolveNow implements resolver.Resolver. It does nothing, because changes are pushed.
func (r *leaderResolver) ResolveNow(resolver.ResolveNowOptions) {}

// Close implements resolver.Resolver.
func (r *leaderResolver) Close() {
	r.cancel()
	r.wg.Wait()
}

// reportLeader reports the leader to a connection, first the current one and then each change, until ctx ends.
func (t *routeTable) reportLeader(ctx context.Context, conn resolver.ClientConn) {
	reported := ""
	for {
		r := t.current.Load()
		switch leader := r.leader; {
		case leader == reported:
		case leader == "":
			_ = conn.UpdateState(resolver.State{}) // closes the connection to the former leader; the error is expected
			conn.ReportError(errNoLeader)
		default:
			// The error concerns the connection alone; it is not a reason to resolve again.
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
