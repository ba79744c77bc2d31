package etcdsession

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// errAlmostOver is returned if the lease lasts for less than a second although it was just renewed.
var errAlmostOver = errors.New("the lease was not renewed")

// errForever is returned if the lease is reported to last longer than etcd's leader would ever allow.
var errForever = errors.New("a member of etcd that does not lead said how long the lease lasts")

// leaseExtension holds etcd's answer about the remaining time of the lease.
type leaseExtension struct {
	sent      deadline.Instant // when the request was sent
	remaining time.Duration    // the least time that the lease lasts from then on
	term      uint64           // raft term in the answer's header
}

// extendLease renews the lease, with alone over a stream of its own. Through a proxy it then asks etcd how long the
// lease lasts; the proxy passes that request on.
func (s *Session) extendLease(ctx context.Context, alone bool) (leaseExtension, error) {
	if s.cfg.View.Proxied() {
		answer, err := s.renewals.RenewAlone(ctx, s.id)
		if err != nil {
			return leaseExtension{}, err
		}
		return s.readRemainingTTL(ctx, answer.Header.GetRaftTerm())
	}
	e := leaseExtension{sent: s.cfg.Clock(), remaining: s.ttl}
	renew := s.renewals.Renew
	if alone {
		renew = s.renewals.RenewAlone
	}
	answer, err := renew(ctx, s.id)
	if err != nil {
		return leaseExtension{}, err
	}
	if answer.TTL < int64(s.ttl/time.Second) {
		// etcd always renews to the granted TTL; this guards against any other answer.
		return leaseExtension{}, fmt.Errorf("renewed to %d s only, %v was granted", answer.TTL, s.ttl)
	}
	e.term = answer.Header.GetRaftTerm()
	return e, nil
}

// readRemainingTTL returns the time for which etcd's leader reports the lease to last, after a renewal that was
// answered in the given raft term. The header of this answer is filled after the lease was looked at, so it
// does not prove in which term that was. It only must not name another term.
func (s *Session) readRemainingTTL(ctx context.Context, term uint64) (leaseExtension, error) {
	e := leaseExtension{sent: s.cfg.Clock(), term: term}
	resp, err := s.cfg.Client.TimeToLive(ctx, s.id)
	switch {
	case err != nil:
		return leaseExtension{}, err
	case resp.TTL < 0:
		return leaseExtension{}, rpctypes.ErrLeaseNotFound
	case resp.TTL == 0:
		return leaseExtension{}, errAlmostOver
	// Before 3.4.32 and 3.5.14, a member that no longer leads answers "forever".
	case resp.TTL > 2*int64(s.ttl/time.Second)+60:
		return leaseExtension{}, errForever
	case resp.GetRaftTerm() != term:
		return leaseExtension{}, fmt.Errorf("%w: renewed in %d, looked at in %d", errOtherTerm, term, resp.GetRaftTerm())
	}
	e.remaining = min(s.ttl, time.Duration(resp.TTL)*time.Second) // etcd truncates to whole seconds
	return e, nil
}
