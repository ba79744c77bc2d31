package etcdsession

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Lease is the session as a clientv3.Lease, to be put under
// concurrency.NewSession(client, concurrency.WithLease(s.ID())): KeepAlive of
// the session's own lease starts no renewal of its own, and its channel closes
// when the session is lost, so that Done of the concurrency.Session follows the
// safe deadline. Every other call goes to etcd.
func (s *Session) Lease() clientv3.Lease { return heldLease{Lease: s.cfg.Client.Lease, s: s} }

type heldLease struct {
	clientv3.Lease
	s *Session
}

func (l heldLease) KeepAlive(ctx context.Context,
	id clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	if id != l.s.id {
		return l.Lease.KeepAlive(ctx, id)
	}
	if err := l.s.Err(); err != nil {
		return nil, err
	}
	// Joined through the caller's context or the session's, whichever ends first.
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

// Close does not close the user's client.
func (l heldLease) Close() error { return nil }
