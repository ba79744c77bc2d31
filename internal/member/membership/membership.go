// Package membership keeps a node registered: it writes the node's record with each new session, keeps it
// as it should be, in which an operator's drain request has a say, and notices when it is gone. Beside it
// is what a node logs of its own host name.
//
// Not promised: that a node is registered. It is while etcd answers and its address is free; until then it
// keeps trying.
package membership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
)

// ErrAddressTaken: another living node is registered at this address.
var ErrAddressTaken = errors.New("the address is taken by another node that lives; give this one another advertise " +
	"address, or stop that one")

// errDetectionOff: this node removes nobody.
var errDetectionOff = errors.New("crash detection is off")

// errFar: the one that had the address is left to its lease.
var errFar = errors.New("it was too far from etcd for crash detection")

const identifyTimeout = time.Second

var (
	// registerRetry is the pause before the node is registered again, as etcd did not answer or the
	// address was not free.
	registerRetry = backoff.Policy{First: 100 * time.Millisecond, Last: time.Second}
	// updateRetry is the pause before a record is looked at again that is not as it should be.
	updateRetry = backoff.Policy{First: 100 * time.Millisecond, Last: time.Second}
)

// Config is what a membership works with; all fields are needed unless they say otherwise.
type Config struct {
	Client  *clientv3.Client
	Keys    state.Keys
	Mirror  *watchcache.Mirror
	Address string // where others reach the node, and the name of its record
	// Record is what the node says of itself. The session's part of it is filled in.
	Record state.Record
	// RemovePredecessor: another instance at this address is accused if the address answers as this one.
	RemovePredecessor bool
	GracePeriod       time.Duration // that it has to refute that
	RequestTimeout    time.Duration
	MeasureEvery      time.Duration // how often the rounds of the session are looked at
	// Identify asks who answers at the own address, as others reach it: the instance id.
	Identify func(ctx context.Context, address string) (instance string, err error)
	// Random draws the numbers in [0, 1) by which retries get out of step, for a simulation that is to
	// come out the same again. It must be safe for concurrent use. Default: math/rand's.
	Random func() float64
	Logger hclog.Logger
}

// Membership is this node's record. Its methods are safe for concurrent use.
type Membership struct {
	cfg  Config
	log  hclog.Logger
	wake chan struct{}

	mu          sync.Mutex
	record      state.Record // as it should be; Lease and TTL of the present session
	session     *etcdsession.Session
	incarnation int64 // 0 while not registered
	lastErr     error // of the last try to register, nil if it was answered
	distance    distance

	revokedEarly bool // the last session was lost so
}

// New makes a membership; nothing runs before Run, and nothing is written before Register.
func New(cfg Config) *Membership {
	hostname, _ := os.Hostname() // for people; empty is fine
	record := cfg.Record
	record.Hostname, record.Labels = hostname, maps.Clone(record.Labels)
	return &Membership{cfg: cfg, log: cfg.Logger, wake: make(chan struct{}, 1), record: record.AsStored()}
}

// LastError is why the last try to register failed, nil if etcd answered it.
func (m *Membership) LastError() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastErr
}

// SessionLost notes how a session ended, for the record of the next one. Where the node key was missed first, its lease
// may be gone as well: between a renewal and the read that confirms it. If the key alone was deleted out of band, or
// with an accusation, the record says too much, and others wait for longer than they need.
func (m *Membership) SessionLost(s *etcdsession.Session, lost *session.LostError) {
	gone := lost.Reason == session.ReasonRevoked || lost.Reason == session.ReasonKeyLost
	early := gone && !s.Ended() // suspended or not: others know nothing of that
	m.mu.Lock()
	m.revokedEarly = early
	m.mu.Unlock()
}

// Register writes the node key of a new session. A node key is only ever created where none exists; see
// free for what to do if one does. It blocks until the node is registered, or ctx or the session ends;
// errors are ctx's cause and ErrAddressTaken.
func (m *Membership) Register(ctx context.Context, s *etcdsession.Session) error {
	m.mu.Lock()
	m.incarnation, m.session = 0, s
	m.record.Lease, m.record.TTL, m.record.Term = int64(s.ID()), int64(s.TTL()/time.Second), s.Term()
	m.record.RevokedEarly = m.revokedEarly
	m.mu.Unlock()
	key := m.cfg.Keys.Node(m.cfg.Address)
	warned, measured := false, false
	pause := backoff.Backoff{Policy: registerRetry, Random: m.cfg.Random}
	for {
		known := m.cfg.Mirror.Known()
		attempt, cancel := context.WithTimeout(ctx, m.cfg.RequestTimeout)
		var err error
		if !measured {
			// Before others know of it: they may accuse it at once.
			err = m.measure(attempt, key)
			measured = err == nil
		}
		var resp *clientv3.TxnResponse
		if measured {
			// The record is read anew: it may change while this waits.
			resp, err = txn.Commit(attempt, m.cfg.Client, txn.Register(m.cfg.Keys, m.cfg.Address, m.Record()))
		}
		cancel()
		if err == nil {
			m.cfg.Mirror.Saw(resp.Header, known)
		}
		m.mu.Lock()
		m.lastErr = err
		m.mu.Unlock()
		switch {
		case err != nil:
			if !warned {
				m.log.Warn("could not register, retrying", "error", err)
				warned = true
			}
		case resp.Succeeded:
			m.registered(s, key, resp.Header.Revision)
			return nil
		default:
			kvs := resp.Responses[0].GetResponseRange().Kvs
			if len(kvs) == 0 {
				continue
			}
			theirs, _ := state.DecodeRecord(kvs[0].Value)
			there := &state.Member{Address: m.cfg.Address, Incarnation: kvs[0].CreateRevision, KeyLease: kvs[0].Lease,
				Record: theirs}
			if there.InstanceID == m.cfg.Record.InstanceID && there.Lease == int64(s.ID()) {
				m.registered(s, key, there.Incarnation) // an attempt that timed out came through
				return nil
			}
			free, err := m.free(ctx, s, there, &warned)
			if err != nil {
				return err
			}
			pause.Reset() // etcd answers, and awaitGone has waited
			if free {
				continue
			}
		}
		if !wait.For(ctx, pause.Next()) {
			return context.Cause(ctx)
		}
	}
}

// free looks into which instance holds this node's address, and reports whether the address is free
// now. Without an error it is worth trying again, at once or after a while.
func (m *Membership) free(ctx context.Context, s *etcdsession.Session, there *state.Member,
	warned *bool) (free bool, err error) {
	if there.InstanceID == m.cfg.Record.InstanceID {
		// An earlier session of this very process; its lease is being revoked, or
		// must run out where that is denied.
		return m.awaitGone(ctx, there), context.Cause(ctx)
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
	if !*warned {
		*warned = true
		m.log.Warn("the address is registered by another instance, which may be gone; waiting for its lease to run out",
			"address", m.cfg.Address, "instance", there.InstanceID, "at_most", (time.Duration(there.TTL) * time.Second).String(),
			"reason", err)
	}
	return m.awaitGone(ctx, there), context.Cause(ctx)
}

// removePredecessor: this address answers as this process, so the one that had it
// is probably gone. Probably: on another host the same name can mean that host.
func (m *Membership) removePredecessor(ctx context.Context, s *etcdsession.Session,
	there *state.Member) (free bool, err error) {
	accuser := crash.Accuser{Client: m.cfg.Client, Keys: m.cfg.Keys, ID: m.cfg.Record.InstanceID, Lease: s.ID(),
		Snapshot: m.cfg.Mirror.Snapshot, GracePeriod: m.cfg.GracePeriod}
	err = accuser.Remove(ctx, there, "its address answers as another instance")
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

// awaitGone waits until the snapshot no longer shows that incarnation, and reports whether it does;
// not forever, for the node at the address may begin to answer.
func (m *Membership) awaitGone(ctx context.Context, there *state.Member) bool {
	attempt, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := m.cfg.Mirror.Wait(attempt, func(s *state.Snapshot) bool {
		now := s.Member(there.Address)
		return s.Revision >= there.Incarnation && (now == nil || now.Incarnation != there.Incarnation)
	})
	return err == nil
}

func (m *Membership) registered(s *etcdsession.Session, key string, incarnation int64) {
	s.Protect(key, incarnation, nil)
	m.mu.Lock()
	m.incarnation = incarnation
	m.distance.renewed = s.Renewed()
	m.mu.Unlock()
	m.poke()
}

// Record is the record as it should be.
func (m *Membership) Record() state.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record
}

// MarkStopping says in the record that the node stops, and gives up its shards. It does not block; see
// Recorded.
func (m *Membership) MarkStopping() {
	m.update(func(r *state.Record) { r.Draining, r.Stopping = true, true })
}

// MarkLeft says in the record that the node acts no more: nobody needs to wait for it when its lease is
// revoked. It does not block; see Recorded.
func (m *Membership) MarkLeft() { m.update(func(r *state.Record) { r.Left = true }) }

// SetElectionFailed says in the record why the node cannot stand for election; nil: it can.
func (m *Membership) SetElectionFailed(err error) {
	m.update(func(r *state.Record) {
		r.ElectionFailed, r.Reason = err != nil, ""
		if err != nil {
			r.Reason = err.Error()
		}
	})
}

// update changes the record as it should be; Run writes it.
func (m *Membership) update(change func(*state.Record)) {
	m.mu.Lock()
	change(&m.record)
	m.record = m.record.AsStored()
	m.mu.Unlock()
	m.poke()
}

func (m *Membership) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Run compares the snapshot with what should be there, until ctx ends.
func (m *Membership) Run(ctx context.Context) {
	sub := m.cfg.Mirror.Subscribe(func(before, now *state.Snapshot) bool {
		own := m.cfg.Address
		return before.Member(own) != now.Member(own) || before.Drain(own) != now.Drain(own)
	})
	defer sub.Close()
	retry, pause := time.NewTimer(time.Hour), backoff.Backoff{Policy: updateRetry, Random: m.cfg.Random}
	defer retry.Stop()
	measure := time.NewTicker(m.cfg.MeasureEvery)
	defer measure.Stop()
	for {
		select {
		case <-sub.C:
		case <-m.wake:
		case <-retry.C:
		case <-measure.C:
			m.remeasure()
			continue
		case <-ctx.Done():
			return
		}
		if m.reconcile(ctx) {
			pause.Reset()
		} else {
			retry.Reset(pause.Next())
		}
	}
}

// reconcile reports whether the record stands as it should, as far as can be
// known by now.
func (m *Membership) reconcile(ctx context.Context) bool {
	snap := m.cfg.Mirror.Snapshot()
	s, incarnation, want := m.applyDrain(snap)
	if snap == nil || incarnation == 0 || s.Err() != nil || snap.Revision < incarnation {
		return true
	}
	own := snap.Member(m.cfg.Address)
	switch {
	case own == nil || own.Incarnation != incarnation:
		// The renewal says why, and ends the session.
		s.Check()
		return true
	case own.KeyLease == int64(s.ID()) && own.Encode() == want.Encode():
		return true
	}
	attempt, cancel := context.WithTimeout(ctx, m.cfg.RequestTimeout)
	defer cancel()
	_, err := txn.Commit(attempt, m.cfg.Client, txn.UpdateRecord(m.cfg.Keys, m.cfg.Address, want, own.ModRevision))
	if err != nil && ctx.Err() == nil {
		m.log.Warn("could not update this node's record, trying again", "error", err)
	}
	return false // looked at again when the snapshot shows it, or after a while
}

// Recorded blocks until the snapshot shows the record as it should be, or ctx ends; the error is ctx's.
func (m *Membership) Recorded(ctx context.Context) error {
	_, err := m.cfg.Mirror.Wait(ctx, func(s *state.Snapshot) bool {
		own := s.Member(m.cfg.Address)
		return own != nil && own.Encode() == m.Record().Encode()
	})
	return err
}
