package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
)

// ErrAddressTaken is returned when another living node is registered at this address.
var ErrAddressTaken = errors.New("the address is taken by another node that lives; give this one another advertise " +
	"address, or stop that one")

// ErrIDTaken is returned when another living process takes part in the election under this identity.
var ErrIDTaken = errors.New("the identity is taken by another process that lives; give this one another ID, or stop " +
	"that one")

// errDetectionOff is the reason not to remove the predecessor when crash detection is off.
var errDetectionOff = errors.New("crash detection is off")

// errFar is the reason not to remove a predecessor that was left to its lease.
var errFar = errors.New("it was too far from etcd for crash detection, or its record is unreadable")

const identifyTimeout = time.Second

// freeAddress handles another instance at this node's address, and reports whether the address is free now. If it
// returns no error, registering should be tried again, at once or after a pause.
func (m *Membership) freeAddress(ctx context.Context, s *etcdsession.Session, there *state.Member,
	warned *bool) (free bool, err error) {
	if there.InstanceID == m.cfg.Record.InstanceID {
		// An earlier session of this process. Its lease is being revoked, or must run out if that is denied.
		return m.awaitGone(ctx, there), context.Cause(ctx)
	}
	if m.cfg.Record.ElectionOnly || there.ElectionOnly {
		return m.awaitIdentity(ctx, there, warned)
	}
	attempt, cancel := context.WithTimeout(ctx, identifyTimeout)
	instance, err := m.cfg.Identify(attempt, m.cfg.Address)
	cancel()
	switch {
	case err == nil && instance == m.cfg.Record.InstanceID:
		switch {
		case !m.cfg.RemovePredecessor:
			err = errDetectionOff
		case suspicion.LeftToLease(there):
			err = errFar
		default:
			return m.removePredecessor(ctx, s, there)
		}
	case err == nil:
		return false, fmt.Errorf("%s: %w (instance %s at host %q)",
			m.cfg.Address, ErrAddressTaken, instance, there.Hostname)
	}
	m.warnTaken(there, warned, "reason", err)
	return m.awaitGone(ctx, there), context.Cause(ctx)
}

// warnTaken warns, the first time, that the lease of another instance at this node's address is waited for.
func (m *Membership) warnTaken(there *state.Member, warned *bool, more ...any) {
	if *warned {
		return
	}
	*warned = true
	m.log.Warn("the address is registered by another instance, which may be gone; waiting for its lease to run out",
		append([]any{"address", m.cfg.Address, "instance", there.InstanceID, "at_most",
			(time.Duration(there.TTL) * time.Second).String()}, more...)...)
}

// renewalsSeen is the number of renewals that show that another instance lives.
const renewalsSeen = 3

// awaitIdentity waits until another instance with this process's identity is gone. It returns ErrIDTaken, or
// ErrAddressTaken to a node, if that instance renews its lease, because nothing answers at an identity: three renewals
// take about a TTL. Until then LastError names that instance.
func (m *Membership) awaitIdentity(ctx context.Context, there *state.Member, warned *bool) (free bool, err error) {
	m.warnTaken(there, warned)
	m.mu.Lock()
	m.lastErr = fmt.Errorf("%s is registered by a process at host %q, whose lease of %d s is waited for", m.cfg.Address,
		there.Hostname, there.TTL)
	m.mu.Unlock()
	defer func() { // the error that is returned says more
		m.mu.Lock()
		m.lastErr = nil
		m.mu.Unlock()
	}()
	taken := ErrAddressTaken
	if m.cfg.Record.ElectionOnly {
		taken = ErrIDTaken
	}
	if there.KeyLease == 0 {
		return false, fmt.Errorf("%s: %w, or its key has no lease: delete %s if no such process runs", m.cfg.Address,
			taken, m.cfg.Keys.Node(m.cfg.Address))
	}
	var renewals leaseRenewals
	for {
		attempt, cancel := context.WithTimeout(ctx, m.cfg.RequestTimeout)
		lease, err := m.cfg.Client.TimeToLive(attempt, clientv3.LeaseID(there.KeyLease))
		cancel()
		if err == nil { // otherwise only the snapshot shows that the instance is gone
			renewals = renewals.next(lease.TTL, lease.GetRaftTerm())
		}
		if renewals.count == renewalsSeen {
			return false, fmt.Errorf("%s: %w (it is at host %q)", m.cfg.Address, taken, there.Hostname)
		}
		if m.awaitGone(ctx, there) {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
}

// leaseRenewals counts the renewals of another process's lease.
type leaseRenewals struct {
	count     int
	remaining int64 // seconds, at the last look; 0 before the first
	term      uint64
}

// next returns the count after a look at the seconds that remain, at least a second after the one before. A new leader
// of etcd, in a new raft term, makes all leases last longer, so the count begins anew.
func (r leaseRenewals) next(remaining int64, term uint64) leaseRenewals {
	switch {
	case term != r.term:
		r.count = 0
	case r.remaining > 0 && remaining >= r.remaining:
		r.count++
	}
	r.remaining, r.term = remaining, term
	return r
}

// removePredecessor removes the instance that had this address. This process answers at the address, so that
// instance is probably gone. It may live, because on another host the same name may mean that host.
func (m *Membership) removePredecessor(ctx context.Context, s *etcdsession.Session,
	there *state.Member) (free bool, err error) {
	accuser := crash.Accuser{Client: m.cfg.Client, Keys: m.cfg.Keys, ID: m.cfg.Record.InstanceID, Lease: s.ID(),
		Snapshot: m.cfg.Mirror.Snapshot, GracePeriod: m.cfg.GracePeriod}
	err = accuser.RemoveMember(ctx, there, "its address answers as another instance")
	switch {
	case err == nil:
		m.log.Info("took the address over from an instance that is gone", "address", m.cfg.Address,
			"instance", there.InstanceID)
		return true, nil
	case errors.Is(err, crash.ErrChanged):
		return true, nil
	case errors.Is(err, crash.ErrRefuted):
		return false, fmt.Errorf("%s: %w (it is at host %q)", m.cfg.Address, ErrAddressTaken, there.Hostname)
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	m.log.Warn("could not take the address over, trying again", "address", m.cfg.Address, "error", err)
	return false, nil
}

// awaitGone waits for at most a second until the snapshot no longer shows that incarnation, and reports whether
// that happened. It does not wait longer, because the other node may begin to answer.
func (m *Membership) awaitGone(ctx context.Context, there *state.Member) bool {
	attempt, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := m.cfg.Mirror.Wait(attempt, func(s *state.Snapshot) bool {
		now := s.Member(there.Address)
		return s.Revision >= there.Incarnation && (now == nil || now.Incarnation != there.Incarnation)
	})
	return err == nil
}
