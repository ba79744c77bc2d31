package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/crashdetector"
	"github.com/goverse/goverse/internal/etcdsession"
	"github.com/goverse/goverse/internal/mirror"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/suspicion"
	"github.com/goverse/goverse/internal/txn"
	"github.com/goverse/goverse/internal/wait"
	"github.com/goverse/goverse/node"
)

// ErrAddressTaken: another living node is registered at this address.
var ErrAddressTaken = errors.New("the address is taken by another node that lives; give this one another advertise " +
	"address, or stop that one")

// errDetectionOff: this node removes nobody.
var errDetectionOff = errors.New("crash detection is off")

// errFar: the one that had the address is left to its lease.
var errFar = errors.New("it was too far from etcd for crash detection")

const (
	identifyTimeout = time.Second
	registerRetry   = 100 * time.Millisecond
)

// membership is this node's record: it registers with each new session, keeps
// the record as it should be, which an operator has a say in, and notices when it is gone.
type membership struct {
	client       *clientv3.Client
	keys         state.Keys
	mirror       *mirror.Mirror
	address      string
	instanceID   string
	remove       bool              // a predecessor at this address, on evidence
	grace        time.Duration     // that it has
	dial         []grpc.DialOption // to reach the own address as others do
	timeout      time.Duration
	measureEvery time.Duration // how often the rounds of the session are looked at
	log          hclog.Logger
	wake         chan struct{}

	mu          sync.Mutex
	record      state.Record // as it should be; Lease and TTL of the present session
	session     *etcdsession.Session
	incarnation int64 // 0 while not registered
	trouble     error // of the last try to register, nil if it was answered
	distance    distance

	revokedEarly bool // the last session was lost so
}

// note remembers why registering did not work, for Start to say.
func (m *membership) note(err error) {
	m.mu.Lock()
	m.trouble = err
	m.mu.Unlock()
}

func (m *membership) lastTrouble() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trouble
}

// lost notes how a session ended, for the record of the next one.
func (m *membership) lost(s *etcdsession.Session, lost *session.LostError) {
	early := lost.Reason == session.ReasonRevoked && time.Now().Before(s.Deadline())
	m.mu.Lock()
	m.revokedEarly = early
	m.mu.Unlock()
}

// register writes the node key of a new session. A node key is only ever created
// where none exists; see settle for what to do if one does.
func (m *membership) register(ctx context.Context, s *etcdsession.Session) error {
	m.mu.Lock()
	m.incarnation, m.session = 0, s
	m.record.Lease, m.record.TTL, m.record.Term = int64(s.ID()), int64(s.TTL()/time.Second), s.Term()
	m.record.RevokedEarly = m.revokedEarly
	m.mu.Unlock()
	key := m.keys.Node(m.address)
	said, placed := false, false
	for {
		known := m.mirror.Known()
		attempt, cancel := context.WithTimeout(ctx, m.timeout)
		var err error
		if !placed {
			// Before others know of it: they may accuse it at once.
			err = m.place(attempt, key)
			placed = err == nil
		}
		var resp *clientv3.TxnResponse
		if placed {
			// The record is read anew: it may change while this waits.
			resp, err = txn.Commit(attempt, m.client, txn.Register(m.keys, m.address, m.wanted()))
		}
		cancel()
		if err == nil {
			m.mirror.Saw(resp.Header, known)
		}
		m.note(err)
		switch {
		case err != nil:
			if !said {
				m.log.Warn("could not register, trying on", "error", err)
				said = true
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
			there := &state.Member{Address: m.address, Incarnation: kvs[0].CreateRevision, KeyLease: kvs[0].Lease,
				Record: theirs}
			if there.InstanceID == m.instanceID && there.Lease == int64(s.ID()) {
				m.registered(s, key, there.Incarnation) // an attempt that timed out came through
				return nil
			}
			free, err := m.settle(ctx, s, there, &said)
			if err != nil {
				return err
			}
			if free {
				continue
			}
		}
		if !wait.For(ctx, registerRetry) {
			return context.Cause(ctx)
		}
	}
}

// settle looks into who holds this node's address, and reports whether it is
// free now. Without an error it is worth trying again, at once or after a while.
func (m *membership) settle(ctx context.Context, s *etcdsession.Session, there *state.Member,
	said *bool) (free bool, err error) {
	if there.InstanceID == m.instanceID {
		// An earlier session of this very process; its lease is being revoked, or
		// must run out where that is denied.
		return m.awaitGone(ctx, there), context.Cause(ctx)
	}
	attempt, cancel := context.WithTimeout(ctx, identifyTimeout)
	who, err := node.Identify(attempt, m.address, m.dial...)
	cancel()
	switch {
	case err == nil && who.InstanceID == m.instanceID:
		switch {
		case !m.remove:
			err = errDetectionOff
		case suspicion.LeftToLease(there):
			err = errFar
		default:
			return m.removePredecessor(ctx, s, there)
		}
	case err == nil:
		return false, fmt.Errorf("%s: %w (instance %s at host %q)", m.address, ErrAddressTaken, who.InstanceID,
			there.Hostname)
	}
	if !*said {
		*said = true
		m.log.Warn("the address is registered by another instance, which may be gone; waiting for its lease to run out",
			"address", m.address, "instance", there.InstanceID, "at_most", (time.Duration(there.TTL) * time.Second).String(),
			"reason", err)
	}
	return m.awaitGone(ctx, there), context.Cause(ctx)
}

// removePredecessor: this address answers as this process, so the one that had it
// is probably gone. Probably: on another host the same name can mean that host.
func (m *membership) removePredecessor(ctx context.Context, s *etcdsession.Session,
	there *state.Member) (free bool, err error) {
	accuser := crashdetector.Accuser{Client: m.client, Keys: m.keys, ID: m.instanceID, Lease: s.ID(),
		Snapshot: m.mirror.Snapshot, Grace: m.grace}
	err = accuser.Remove(ctx, there, "its address answers as another instance")
	switch {
	case err == nil:
		m.log.Info("took the address over from an instance that is gone", "address", m.address, "instance", there.InstanceID)
		return true, nil
	case errors.Is(err, crashdetector.ErrChanged):
		return true, nil
	case errors.Is(err, crashdetector.ErrRefuted):
		return false, fmt.Errorf("%s: %w (it is at host %q)", m.address, ErrAddressTaken, there.Hostname)
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	m.log.Warn("could not take the address over, trying again", "address", m.address, "error", err)
	return false, nil
}

// awaitGone waits until the snapshot no longer shows that incarnation, and
// reports whether it does; not for ever, for who holds the address may begin to
// answer.
func (m *membership) awaitGone(ctx context.Context, there *state.Member) bool {
	attempt, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := m.mirror.Wait(attempt, func(s *state.Snapshot) bool {
		now := s.Member(there.Address)
		return s.Revision >= there.Incarnation && (now == nil || now.Incarnation != there.Incarnation)
	})
	return err == nil
}

func (m *membership) registered(s *etcdsession.Session, key string, incarnation int64) {
	s.Protect(key, incarnation, nil)
	m.mu.Lock()
	m.incarnation = incarnation
	m.distance.renewed = s.Renewed()
	m.mu.Unlock()
	m.poke()
}

func (m *membership) wanted() state.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record
}

// change alters the record as it should be; run writes it.
func (m *membership) change(alter func(*state.Record)) {
	m.mu.Lock()
	alter(&m.record)
	m.record = m.record.AsStored()
	m.mu.Unlock()
	m.poke()
}

func (m *membership) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// run compares the snapshot with what should be there, until ctx ends.
func (m *membership) run(ctx context.Context) {
	sub := m.mirror.Subscribe(func(before, now *state.Snapshot) bool {
		return before.Member(m.address) != now.Member(m.address) || before.Drain(m.address) != now.Drain(m.address)
	})
	defer sub.Close()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	measure := time.NewTicker(m.measureEvery)
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
		if !m.reconcile(ctx) {
			retry.Reset(registerRetry)
		}
	}
}

// reconcile reports whether the record stands as it should, as far as can be
// told by now.
func (m *membership) reconcile(ctx context.Context) bool {
	snap := m.mirror.Snapshot()
	s, incarnation, want := m.heed(snap)
	if snap == nil || incarnation == 0 || s.Err() != nil || snap.Revision < incarnation {
		return true
	}
	own := snap.Member(m.address)
	switch {
	case own == nil || own.Incarnation != incarnation:
		// The renewal tells why, and ends the session.
		s.Check()
		return true
	case own.KeyLease == int64(s.ID()) && own.Encode() == want.Encode():
		return true
	}
	attempt, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	_, err := txn.Commit(attempt, m.client, txn.UpdateRecord(m.keys, m.address, want, own.ModRevision))
	if err != nil && ctx.Err() == nil {
		m.log.Warn("could not update this node's record, trying again", "error", err)
	}
	return false // looked at again when the snapshot shows it, or after a while
}

// recorded blocks until the snapshot shows the record as it should be.
func (m *membership) recorded(ctx context.Context) error {
	_, err := m.mirror.Wait(ctx, func(s *state.Snapshot) bool {
		own := s.Member(m.address)
		return own != nil && own.Encode() == m.wanted().Encode()
	})
	return err
}
