package etcdsession

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
)

// turns is an etcd in fake time with several endpoints, which receive a client's requests in turn. One of them
// can be cut off from the others.
type turns struct {
	endpoints int

	mu    sync.Mutex
	cut   bool // endpoint 0 is cut off
	knows bool // the endpoint that is cut off has noticed
	gone  bool // the lease is gone
	sent  int  // number of requests
	early int  // refusals that came before or after a renewal was written, in turn
}

// from sets the endpoint of the next request, and whether endpoint 0 is cut off and has noticed.
func (e *turns) from(turn int, cut, knows bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent, e.cut, e.knows = turn, cut, knows
}

func (e *turns) requests() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sent
}

// send makes a request. If it is the turn of endpoint 0 while that is cut off, the request waits, or is refused
// if the endpoint has noticed and the client requires a leader.
func (e *turns) send(ctx context.Context) error {
	e.mu.Lock()
	reached := !e.cut || e.sent%e.endpoints != 0
	knows := e.knows
	e.sent++
	e.mu.Unlock()
	md, _ := metadata.FromOutgoingContext(ctx)
	switch {
	case reached:
		return nil
	case knows && len(md[rpctypes.MetadataRequireLeaderKey]) == 1:
		return rpctypes.ErrNoLeader
	}
	<-ctx.Done()
	return ctx.Err()
}

func (e *turns) client() *clientv3.Client {
	client := clientv3.NewCtxClient(context.Background())
	client.Lease, client.KV = turnsLease{e: e}, turnsKV{e: e}
	return client
}

type turnsLease struct {
	clientv3.Lease
	e *turns
}

func (l turnsLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	return &clientv3.LeaseGrantResponse{ResponseHeader: &etcdserverpb.ResponseHeader{}, ID: 7, TTL: ttl}, l.e.send(ctx)
}

func (l turnsLease) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	err := l.e.send(ctx)
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	switch {
	case errors.Is(err, rpctypes.ErrNoLeader):
		if l.e.early++; l.e.early%2 == 1 {
			err = io.EOF
		}
	case err == nil && l.e.gone:
		err = rpctypes.ErrLeaseNotFound
	}
	return &clientv3.LeaseKeepAliveResponse{ResponseHeader: &etcdserverpb.ResponseHeader{}, ID: id, TTL: 10}, err
}

func (l turnsLease) Revoke(ctx context.Context, _ clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	return &clientv3.LeaseRevokeResponse{}, l.e.send(ctx)
}

type turnsKV struct {
	clientv3.KV
	e *turns
}

func (kv turnsKV) Txn(ctx context.Context) clientv3.Txn { return turnsTxn{ctx: ctx, e: kv.e} }

type turnsTxn struct {
	clientv3.Txn
	ctx context.Context
	e   *turns
}

func (t turnsTxn) Then(...clientv3.Op) clientv3.Txn { return t }

func (t turnsTxn) Commit() (*clientv3.TxnResponse, error) {
	found := &etcdserverpb.RangeResponse{Kvs: []*mvccpb.KeyValue{{CreateRevision: 1}}}
	return &clientv3.TxnResponse{Header: &etcdserverpb.ResponseHeader{}, Responses: []*etcdserverpb.ResponseOp{
		{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: found}}}}, t.e.send(t.ctx)
}

// With one bad endpoint among good ones the session stands, whichever requests it receives.
func TestSessionOutlivesABadEndpoint(t *testing.T) {
	for _, knows := range []bool{false, true} {
		for endpoints := 2; endpoints <= 3; endpoints++ {
			for first := range endpoints {
				t.Run(fmt.Sprintf("%d endpoints, turn %d, refuses %t", endpoints, first, knows), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						e := &turns{endpoints: endpoints}
						s, err := Open(context.Background(), Config{Process: etcd.Process{Client: e.client()}, TTL: 10 * time.Second})
						require.NoError(t, err)
						s.ProtectKey("key", 1, nil)
						e.from(first, true, knows)
						defer func() {
							e.from(0, false, false)
							require.NoError(t, s.Close(context.Background()))
						}()
						for range 100 {
							pass(time.Second)
							require.NoError(t, s.Err())
							require.Greater(t, time.Until(s.Deadline()), time.Second, "time for another round")
							if knows {
								require.Greater(t, time.Until(s.Deadline()), 6*time.Second, "refused at once, it waits for nothing")
							}
						}
					})
				})
			}
		}
	}
}

// With one endpoint that is gone a suspected session is soon confirmed, and soon learns that its lease is gone,
// whichever requests that endpoint receives.
func TestSuspectedSessionAsksElsewhere(t *testing.T) {
	for endpoints := 2; endpoints <= 3; endpoints++ {
		for first := range endpoints {
			for _, gone := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d endpoints, turn %d, lease gone %t", endpoints, first, gone), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						e := &turns{endpoints: endpoints}
						s, err := Open(context.Background(), Config{Process: etcd.Process{Client: e.client()}, TTL: 10 * time.Second})
						require.NoError(t, err)
						s.ProtectKey("key", 1, nil)
						pass(time.Second)
						e.from(first, true, false)
						e.gone = gone
						defer func() {
							e.from(0, false, false)
							_ = s.Close(context.Background())
						}()
						began := time.Now()
						s.Suspect(0, 0) // suspended at once: its requests have all their time
						for s.Err() == nil && s.Suspected() {
							pass(time.Millisecond)
						}
						require.Equal(t, gone, session.ReasonOf(s.Err()) == session.ReasonRevoked)
						require.Less(t, time.Since(began), 2*leastGap+10*time.Millisecond)
					})
				})
			}
		}
	}
}

// Without a good endpoint the session ends by its deadline, reports the reason, and retries often, but not
// continuously.
func TestSessionEndsWithTheOnlyEndpointCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &turns{endpoints: 1}
		s, err := Open(context.Background(), Config{Process: etcd.Process{Client: e.client()}, TTL: 10 * time.Second})
		require.NoError(t, err)
		s.ProtectKey("key", 1, nil)
		e.from(0, true, true)
		deadline := s.Deadline()
		<-s.Done()
		require.Equal(t, deadline, time.Now())
		require.Equal(t, session.ReasonUnreachable, session.ReasonOf(s.Err()))
		require.ErrorIs(t, s.Err(), rpctypes.ErrNoLeader)
		require.Greater(t, e.requests(), 20)
		require.Less(t, e.requests(), 60)
		require.ErrorIs(t, s.Close(context.Background()), rpctypes.ErrNoLeader)
		_, err = Open(context.Background(), Config{Process: etcd.Process{Client: e.client()}, TTL: 10 * time.Second})
		require.ErrorIs(t, err, rpctypes.ErrNoLeader)
		e.from(0, false, false)
		require.NoError(t, s.Close(context.Background()))
	})
}
