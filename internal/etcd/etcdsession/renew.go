package etcdsession

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/etcd/hedge"
)

// The session is renewed renewalsPerTTL times in each TTL. A renewal that failed is tried again retriesPerTTL times in
// each TTL.
const (
	renewalsPerTTL = 3
	retriesPerTTL  = 30
)

// suspendedTimeout bounds a round while a session is suspected. It is short so that the session soon becomes
// valid again.
const suspendedTimeout = 5 * time.Second

// While a session is suspected, or a pause is unconfirmed, a request of a round is sent again while it has no answer:
// first after five round trips and leastGap at least, then after twice as long each time, up to maxGap. The member of
// etcd that received it may be gone, and its connection would break only after seconds.
const leastGap, maxGap = 100 * time.Millisecond, time.Second

// Slowdown is the least time that a suspicion allows, in multiples of the duration of the last round; see
// [Session.Suspect].
const Slowdown = 5

var (
	// errSuspected ends a round that was sent before a suspicion.
	errSuspected = errors.New("sent before a suspicion")
	// errOtherTerm is returned if etcd's leader changed between the renewal and the read, so that it is unknown
	// which leader renewed.
	errOtherTerm = errors.New("etcd's raft term changed")
	// errUnread is returned if the session's keys could not be read.
	errUnread = errors.New("read the session's keys")
)

// renewLoop renews every third of the TTL. After a failure it retries every thirtieth of the TTL, because one
// attempt must succeed before the deadline.
func (s *Session) renewLoop() {
	defer s.endRenewals() // also for a session that is lost and never closed
	// The TTL counts from when the grant was sent; its answer may have taken long.
	timer := time.NewTimer(s.ttl/renewalsPerTTL - time.Duration(s.cfg.Clock().Mono-s.claim.Load().RenewedAt().Mono))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.wakeRenewal:
		case <-s.ctx.Done():
			return
		}
		started := time.Now()
		err := s.renewLease()
		s.cfg.Renewals.observeRound(time.Since(started), err)
		if s.ctx.Err() != nil {
			return
		}
		if errors.Is(err, errSuspected) {
			continue // a new check was requested
		}
		s.mu.Lock()
		again := s.lastErr != nil
		s.lastErr = err
		retry := s.ttl / retriesPerTTL
		if claim := s.claim.Load(); claim.Suspected() || s.pauses.Load().Unconfirmed() {
			if retry = min(retry, deadline.SuspendedRetry); claim.Valid(s.cfg.Clock()) {
				retry = min(retry, deadline.SuspectedRetry)
			}
		}
		s.mu.Unlock()
		switch {
		case err == nil:
			timer.Reset(s.ttl/renewalsPerTTL - time.Since(started))
			if again {
				s.cfg.Logger.Info("session renewals work again", "lease", leaseName(s.id))
			}
		default:
			timer.Reset(retry)
			if !again {
				s.cfg.Logger.Warn("could not renew the session, trying again until its deadline",
					"lease", leaseName(s.id), "left", time.Until(s.Deadline()).Round(time.Millisecond).String(), "error", err)
			}
		}
	}
}

// renewLease makes a round, and a second one immediately if etcd's leader changed during the first. A member of etcd
// that is cut off from the others refuses the requests instead of letting them wait.
func (s *Session) renewLease() error {
	round, endRound := context.WithCancelCause(clientv3.WithRequireLeader(s.ctx))
	defer endRound(nil)
	s.mu.Lock()
	s.endRound, s.roundSent = endRound, s.cfg.Clock()
	protected := s.protected
	known := s.revision
	s.mu.Unlock()
	known = max(known, s.cfg.View.KnownRevision())

	err := s.runRound(round, protected, known)
	if errors.Is(err, errOtherTerm) {
		// etcd's leader has changed; the present one makes the next renewal.
		err = s.runRound(round, protected, known)
	}
	return err
}

// runRound sends a renewal and then the read, each with a time limit. If the read confirms the renewal, the
// deadline counts from when the renewal was sent.
func (s *Session) runRound(round context.Context, protected []*Protection, known int64) error {
	bound, began := s.requestTimeout(), s.cfg.Clock()
	ctx, cancel := context.WithTimeout(round, bound)
	defer cancel()
	var again atomic.Bool
	answer, renewTook, err := hurry(ctx, s, func(ctx context.Context) (leaseExtension, error) {
		// A copy gets a stream of its own: on the standing one it would wait for the answer to the one before.
		alone := again.Swap(true)
		answer, err := s.extendLease(ctx, alone)
		// A refusal appears as the end of the stream if it arrives before the request was written.
		if errors.Is(err, rpctypes.ErrNoLeader) || errors.Is(err, io.EOF) {
			answer, err = s.extendLease(ctx, alone) // at the next endpoint
		}
		return answer, err
	})
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return s.checkLeaseGone(ctx, known, err)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		s.EndLocally(session.ReasonPermission, err)
		return err
	case errors.Is(context.Cause(ctx), errSuspected):
		return errSuspected
	case err != nil:
		return fmt.Errorf("renew: %w", err)
	}
	s.mu.Lock()
	s.renewalAnswered = true
	s.mu.Unlock()
	read := func(ctx context.Context) (term uint64, err error) { return s.readProtectedKeys(ctx, protected, known) }
	term, readTook, err := hurry(ctx, s, read)
	if errors.Is(err, errUnread) {
		// The client's endpoints receive its requests in turn. If one of two is bad, a new round would always
		// send the read to the bad one.
		ctx, cancel := context.WithTimeout(round, bound)
		defer cancel()
		term, readTook, err = hurry(ctx, s, read)
	}
	if err == nil && !deadline.RenewalConfirmed(answer.term, term) {
		err = fmt.Errorf("%w: renewed in %d, read in %d", errOtherTerm, answer.term, term)
	}
	if err != nil {
		return err
	}

	if s.recordRound(began, answer, renewTook+readTook) {
		s.logConfirmed()
	}
	return nil
}

// hurry sends a request of a round. If the round is urgent, it sends the request again while there is no answer. It
// also returns how long the answer took from the sending of the copy that got it.
func hurry[T any](ctx context.Context, s *Session, send func(ctx context.Context) (T, error)) (value T,
	took time.Duration, err error) {
	if !s.claim.Load().Suspected() && s.pausesHarmless(s.cfg.Clock()) {
		sent := s.cfg.Clock()
		value, err = send(ctx)
		return value, time.Duration(s.cfg.Clock().Mono - sent.Mono), err
	}
	type answer struct {
		value T
		took  time.Duration
		err   error
	}
	a, err := hedge.Do(ctx, hedge.Policy{First: s.ResendAfter(leastGap, suspendedTimeout), Last: maxGap},
		func(ctx context.Context) (answer, error) {
			sent := s.cfg.Clock()
			value, err := send(ctx)
			a := answer{value: value, took: time.Duration(s.cfg.Clock().Mono - sent.Mono)}
			if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, rpctypes.ErrPermissionDenied) {
				a.err, err = err, nil // an answer, too; it does not wait for that of a copy which hangs
			}
			return a, err
		})
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer, also to copies: %w", err)
	}
	return a.value, a.took, cmp.Or(err, a.err)
}

// checkLeaseGone ends the session if its lease is gone, after a member of etcd has not found it. It returns why the
// round failed. That answer is not linearizable: a member that led etcd, stood still and goes on does not find the
// leases that were granted meanwhile. A protected key on the lease shows by a linearizable read that the lease stands,
// whose end would have deleted it. Without protected keys two rounds in a row must get that answer.
func (s *Session) checkLeaseGone(ctx context.Context, known int64, notFound error) error {
	s.mu.Lock()
	protected, again := s.protected, errors.Is(s.lastErr, rpctypes.ErrLeaseNotFound)
	s.mu.Unlock()
	var stands bool
	var err error
	if len(protected) > 0 {
		stands, _, err = hurry(ctx, s, func(ctx context.Context) (bool, error) {
			return s.findKeyOnLease(ctx, protected, known)
		})
	} else {
		stands = !again
	}
	switch {
	case err != nil:
		return fmt.Errorf("renew: %w (%w)", notFound, err)
	case stands:
		return fmt.Errorf("renew: one member of etcd answered: %w", notFound)
	}
	s.EndLocally(session.ReasonRevoked, notFound)
	return notFound
}

// findKeyOnLease reports whether a protected key is on the lease, by a linearizable read.
func (s *Session) findKeyOnLease(ctx context.Context, protected []*Protection, known int64) (found bool, err error) {
	gets := make([]clientv3.Op, 0, len(protected))
	for _, p := range protected {
		gets = append(gets, clientv3.OpGet(p.key)) // etcd 3.7 leaves the lease out of an answer of keys only
	}
	resp, err := s.cfg.Client.Txn(ctx).Then(gets...).Commit()
	switch {
	case errors.Is(context.Cause(ctx), errSuspected):
		return false, errSuspected
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		s.EndLocally(session.ReasonPermission, err)
		return false, err
	case err != nil:
		return false, fmt.Errorf("%w: %w", errUnread, err)
	}
	if err := s.checkHistory(resp.Header, known); err != nil {
		return false, err
	}
	return slices.ContainsFunc(resp.Responses, func(r *pb.ResponseOp) bool {
		return slices.ContainsFunc(r.GetResponseRange().GetKvs(), func(kv *mvccpb.KeyValue) bool {
			return kv.Lease == int64(s.id)
		})
	}), nil
}

// checkHistory ends the session if an answer is from another cluster of etcd, or from before what it has shown.
func (s *Session) checkHistory(h *pb.ResponseHeader, known int64) error {
	if h.ClusterId == s.clusterID && h.Revision >= known {
		return nil
	}
	err := fmt.Errorf("cluster %x at revision %d, expected cluster %x at %d or later", h.ClusterId, h.Revision,
		s.clusterID, known)
	s.EndLocally(session.ReasonOtherHistory, err)
	return err
}

// requestTimeout returns the time limit of a request in a round. One endpoint that swallows requests must not use up
// the whole TTL, nor the time that a suspicion leaves.
func (s *Session) requestTimeout() time.Duration {
	bound, claim := s.ttl/5, s.claim.Load()
	if !claim.Suspected() {
		return bound
	}
	bound = min(bound, suspendedTimeout)
	if claim.Valid(s.cfg.Clock()) {
		bound = min(bound, max(s.cfg.Clock().Until(claim.ValidUntil())/2, deadline.SuspectedRetry))
	}
	return bound
}

// recordRound records a round that began at began, has now been answered, and took so long without the copies of
// requests that were not answered first. It reports whether the session is valid again.
func (s *Session) recordRound(began deadline.Instant, by leaseExtension, took time.Duration) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answered := s.cfg.Clock()
	s.lastRound = took
	s.recordConfirmation(began, answered)
	if claim := s.claim.Load().OnRemainingTTL(by.sent, by.remaining, answered); s.lost == nil && claim != *s.claim.Load() {
		return s.setClaim(claim)
	}
	return false
}

// readProtectedKeys reads the protected keys, linearizably, and the accusations. It returns the raft term in the
// answer. It calls lost for keys that are gone, and deletes accusations.
func (s *Session) readProtectedKeys(ctx context.Context, protected []*Protection, known int64) (term uint64,
	err error) {
	// Before the ranges are chosen: without the accusations of silence it must not count from after a watcher was armed.
	asked, asksIn := s.cfg.Clock(), s.newestTerm.Load()
	gets := make([]clientv3.Op, 0, max(1, len(protected))+2)
	for _, p := range protected {
		gets = append(gets, clientv3.OpGet(p.key, clientv3.WithKeysOnly()))
	}
	if len(gets) == 0 { // etcd answers an empty transaction without asking other members
		gets = append(gets, clientv3.OpGet(s.cfg.ReadKey, clientv3.WithKeysOnly()))
	}
	accusations := len(gets)
	for _, prefix := range s.accusationRanges() {
		gets = append(gets, clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly()))
	}
	resp, err := s.cfg.Client.Txn(ctx).Then(gets...).Commit()
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		if len(protected) == 0 {
			err = fmt.Errorf("read %s: grant that, or have the session read another key (%w)", s.cfg.ReadKey, err)
		}
		s.EndLocally(session.ReasonPermission, err)
		return 0, err
	}
	if errors.Is(context.Cause(ctx), errSuspected) {
		return 0, errSuspected
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errUnread, err)
	}
	if err := s.checkHistory(resp.Header, known); err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.revision = max(s.revision, resp.Header.Revision)
	if resp.Header.GetRaftTerm() <= asksIn || s.lastTrip.Took == 0 { // otherwise it may have waited for an election
		s.lastTrip = RoundTrip{resp.Header.GetMemberId(), time.Duration(s.cfg.Clock().Mono - asked.Mono), asked}
	}
	s.newestTerm.Store(max(resp.Header.GetRaftTerm(), s.newestTerm.Load()))
	s.mu.Unlock()
	for i, p := range protected {
		kvs := resp.Responses[i].GetResponseRange().Kvs
		found := int64(0)
		if len(kvs) == 1 {
			found = kvs[0].CreateRevision
		}
		if deadline.KeyUnchanged(p.create, found) {
			continue
		}
		if p.lost == nil {
			err := fmt.Errorf("%s is gone or was replaced", p.key)
			s.EndLocally(session.ReasonKeyLost, err)
			return 0, err
		}
		if s.stillProtected(p) {
			p.lost()
		}
	}
	s.cfg.View.ObserveHeader(resp.Header, known)
	if err := s.settleAccusations(ctx, resp.Responses[accusations:], protected, asked); err != nil {
		return 0, err
	}
	return resp.Header.GetRaftTerm(), nil
}

// RoundTrip describes one linearizable read: to etcd's leader and back.
type RoundTrip struct {
	Member uint64 // the member of etcd that answered
	Took   time.Duration
	Sent   deadline.Instant
}

// RoundTrip returns the last round trip, the zero value before the first. Reads during which etcd may have elected a
// leader do not count.
func (s *Session) RoundTrip() RoundTrip {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastTrip
}

// ResendAfter returns the time after which a request that has no answer is sent again, if it may take limit in all:
// five times the last RoundTrip, but a quarter of limit at most, because one read may have been slow, and at least
// least.
func (s *Session) ResendAfter(least, limit time.Duration) time.Duration {
	return max(least, min(5*s.RoundTrip().Took, limit/4))
}

func (s *Session) stillProtected(p *Protection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.protected, p)
}

func leaseName(id clientv3.LeaseID) string { return fmt.Sprintf("%x", int64(id)) }
