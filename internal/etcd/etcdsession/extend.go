package etcdsession

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// errAlmostOver: the lease lasts for less than a second, though it was just renewed.
var errAlmostOver = errors.New("the lease was not renewed")

// errForever: the lease is said to last longer than etcd's leader would ever let it.
var errForever = errors.New("a member of etcd that does not lead said how long the lease lasts")

// extension is what etcd answered about how long the lease lasts.
type extension struct {
	sent deadline.Instant // the request
	left time.Duration    // from then on, at least
	term uint64           // in the answer's header
}

// extend renews the lease. With a proxy in between it asks etcd afterwards how long the lease lasts: that
// passes through.
func (s *Session) extend(ctx context.Context) (extension, error) {
	if s.cfg.Proxied != nil && s.cfg.Proxied() {
		answer, err := s.renewals.Alone(ctx, s.id)
		if err != nil {
			return extension{}, err
		}
		return s.remaining(ctx, answer.Header.GetRaftTerm())
	}
	e := extension{sent: s.cfg.Clock(), left: s.ttl}
	answer, err := s.renewals.Renew(ctx, s.id)
	if err != nil {
		return extension{}, err
	}
	if answer.TTL < int64(s.ttl/time.Second) {
		// Never seen from etcd, which renews to the granted TTL; safe all the same.
		return extension{}, fmt.Errorf("renewed to %d s only, %v was granted", answer.TTL, s.ttl)
	}
	e.term = answer.Header.GetRaftTerm()
	return e, nil
}

// remaining is how long etcd's leader says that the lease lasts, after an answer to a renewal in that term. Its
// own header is filled when the lease has been looked at, so it does not say in which term that was: it only
// may not say another one.
func (s *Session) remaining(ctx context.Context, term uint64) (extension, error) {
	e := extension{sent: s.cfg.Clock(), term: term}
	resp, err := s.cfg.Client.TimeToLive(ctx, s.id)
	switch {
	case err != nil:
		return extension{}, err
	case resp.TTL < 0:
		return extension{}, rpctypes.ErrLeaseNotFound
	case resp.TTL == 0:
		return extension{}, errAlmostOver
	case resp.TTL > 2*int64(s.ttl/time.Second)+60: // before 3.4.32 and 3.5.14 who leads no more says forever
		return extension{}, errForever
	case resp.GetRaftTerm() != term:
		return extension{}, fmt.Errorf("%w: renewed in %d, looked at in %d", errOtherTerm, term, resp.GetRaftTerm())
	}
	e.left = min(s.ttl, time.Duration(resp.TTL)*time.Second) // etcd leaves fractions of seconds out
	return e, nil
}
