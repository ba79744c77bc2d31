package etcdsession

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Lease returns the session as a clientv3.Lease, for use under concurrency.NewSession(client,
// concurrency.WithLease(s.ID())). KeepAlive of the session's own lease starts no further renewal. Its channel
// closes when the session is lost, so Done of the concurrency.Session follows the safe deadline. All other
// calls go to etcd.
func (s *Session) Lease() clientv3.Lease { return sessionLease{Lease: s.cfg.Client.Lease, s: s} }

type sessionLease struct {
	clientv3.Lease
	s *Session
}

func (l sessionLease) KeepAlive(ctx context.Context,
	id clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	if id != l.s.id {
		return l.Lease.KeepAlive(ctx, id)
	}
	if err := l.s.Err(); err != nil {
		return nil, err
	}
	// The goroutine ends with the caller's context or the session's, whichever ends first.
	ch := make(chan *clientv3.LeaseKeepAliveResponse)
	go func() {
		defer close(ch)
		select {
		case <-ctx.Done():
		case <-l.s.Done():
		}
	}()
	return ch, nil
}

// Close does nothing: the client belongs to the user.
func (l sessionLease) Close() error { return nil }
