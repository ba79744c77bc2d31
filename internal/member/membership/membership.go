// Package membership keeps a node registered. It writes the node's record for each new session, keeps it
// current, applies operators' drain requests to it, and notices when it is gone. It also checks that the node's
// host name resolves.
//
// Not promised: a registration at any given time. The node is registered while etcd answers and its address is
// free. Otherwise it keeps trying.
package membership

import (
	"context"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
)

var (
	// registerRetry is the pause before another attempt to register, after a failure or while the address is
	// not free.
	registerRetry = backoff.Policy{First: 100 * time.Millisecond, Last: time.Second}
	// updateRetry is the pause before another check of a record that was not the desired one.
	updateRetry = backoff.Policy{First: 100 * time.Millisecond, Last: time.Second}
)

// Config configures a [Membership]. All fields are required unless their comment says otherwise.
type Config struct {
	etcd.Process
	Mirror *watchcache.Mirror
	// Record is the node's record. Membership fills in the fields of the session.
	Record state.Record
	// RemovePredecessor lets this node accuse another instance registered at its address, if this process
	// answers there.
	RemovePredecessor bool
	GracePeriod       time.Duration // time that the predecessor has to refute the accusation
	SilenceTimeout    time.Duration // of this node; 0 for none
	MeasureEvery      time.Duration // pause between looks at the session's rounds
	// Identify returns the instance id of the process that answers at an address, which is this node's own. It is not
	// used by a member of an election only.
	Identify func(ctx context.Context, address string) (instance string, err error)
}

// Membership keeps this node's record. Its methods are safe for concurrent use.
type Membership struct {
	cfg  Config
	log  hclog.Logger
	wake wait.Signal

	mu          sync.Mutex
	record      state.Record // the desired record, with Lease and TTL of the present session
	session     *etcdsession.Session
	incarnation int64 // 0 while not registered
	lastErr     error // of the last attempt to register; nil if etcd answered it
	distance    etcdDistance

	revokedEarly bool // the lease of the last registered session, or of one since then, was revoked early
}

// New returns a membership. Nothing runs before Run, and nothing is written before Register.
func New(cfg Config) *Membership {
	hostname, _ := os.Hostname() // for operators; may be empty
	record := cfg.Record
	record.Hostname, record.Labels = hostname, maps.Clone(record.Labels)
	if record.Formats == (format.Range{}) {
		record.Goverse, record.Formats = format.Release(), format.Own()
	}
	return &Membership{cfg: cfg, log: cfg.Logger, wake: wait.NewSignal(), record: record.AsStored()}
}

// LastError returns the error of the last attempt to register, or nil if etcd answered it.
func (m *Membership) LastError() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastErr
}

// Register writes the node key of a new session. A node key is only ever created where none exists; see freeAddress
// for the case that one does. It blocks until the node is registered, or ctx or the session ends. Errors are
// ctx's cause, ErrAddressTaken, and a [format.Error] if the cluster uses a format that this process does not read: it
// then writes nothing.
func (m *Membership) Register(ctx context.Context, s *etcdsession.Session) error {
	m.mu.Lock()
	if former := m.session; former != nil && (m.incarnation != 0 || former.RevokedEarly()) {
		m.revokedEarly = former.RevokedEarly() // also if it was suspended: others do not know that
	}
	m.incarnation, m.session = 0, s
	m.record.Lease, m.record.TTL, m.record.Term = int64(s.ID()), int64(s.TTL()/time.Second), s.RaftTerm()
	m.record.RevokedEarly = m.revokedEarly
	m.mu.Unlock()
	key := m.cfg.Keys.Node(m.cfg.Address)
	warned, measured := false, m.cfg.Record.ElectionOnly // such a member is never accused
	pause := backoff.Backoff{Policy: registerRetry, Random: m.cfg.Random}
	for {
		if snap := m.cfg.Mirror.Snapshot(); snap != nil {
			if err := snap.CheckFormat(m.Record().Formats, m.cfg.Address); err != nil {
				return err
			}
		}
		known := m.cfg.Mirror.KnownRevision()
		attempt, cancel := context.WithTimeout(ctx, m.cfg.RequestTimeout)
		var err error
		if !measured {
			// Measure first: once registered, this node may be accused at once.
			err = m.measureDistance(attempt, key)
			measured = err == nil
		}
		var resp *clientv3.TxnResponse
		if measured {
			// Read the record anew, because it may change during the wait.
			resp, err = txn.Commit(attempt, m.cfg.Client, txn.RegisterMember(m.cfg.Keys, m.cfg.Address, m.Record()))
		}
		cancel()
		if err == nil {
			m.cfg.Mirror.ObserveHeader(resp.Header, known)
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
			m.setRegistered(s, key, resp.Header.Revision)
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
				m.setRegistered(s, key, there.Incarnation) // an attempt that timed out was committed
				return nil
			}
			free, err := m.freeAddress(ctx, s, there, &warned)
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

func (m *Membership) setRegistered(s *etcdsession.Session, key string, incarnation int64) {
	s.ProtectKey(key, incarnation, nil)
	m.mu.Lock()
	m.incarnation = incarnation
	m.distance.measuredRound = s.RenewedAt()
	m.mu.Unlock()
	m.wake.Send()
}

// Record returns the desired record.
func (m *Membership) Record() state.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record
}

// MarkStopping records that the node stops and releases its shards. It does not block; see AwaitRecorded.
func (m *Membership) MarkStopping() {
	m.updateRecord(func(r *state.Record) { r.Draining, r.Stopping = true, true })
}

// MarkLeft records that the node acts no more, so that no member needs to wait for it when its lease is
// revoked. It does not block; see AwaitRecorded.
func (m *Membership) MarkLeft() { m.updateRecord(func(r *state.Record) { r.Left = true }) }

// SetElectionFailed records the reason why the node cannot stand for election, or with nil that it can.
func (m *Membership) SetElectionFailed(err error) {
	m.updateRecord(func(r *state.Record) {
		r.ElectionFailed, r.Reason = err != nil, ""
		if err != nil {
			r.Reason = err.Error()
		}
	})
}

// updateRecord changes the desired record. Run writes it.
func (m *Membership) updateRecord(change func(*state.Record)) {
	m.mu.Lock()
	change(&m.record)
	m.record = m.record.AsStored()
	m.mu.Unlock()
	m.wake.Send()
}

// Run keeps the record in etcd equal to the desired one, until ctx ends.
func (m *Membership) Run(ctx context.Context) {
	sub := m.cfg.Mirror.Subscribe(func(before, now *state.Snapshot) bool {
		own := m.cfg.Address
		return before.Member(own) != now.Member(own) || before.DrainOf(own) != now.DrainOf(own)
	})
	defer sub.Close()
	retry, pause := time.NewTimer(time.Hour), backoff.Backoff{Policy: updateRetry, Random: m.cfg.Random}
	defer retry.Stop()
	measure := time.NewTicker(min(m.cfg.MeasureEvery, farMeasureEvery))
	defer measure.Stop()
	for {
		select {
		case <-sub.C:
		case <-m.wake:
		case <-retry.C:
		case <-measure.C:
			m.remeasureDistance()
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

// reconcile compares the record in etcd with the desired one, and writes it if they differ. It returns false if
// it must be called again.
func (m *Membership) reconcile(ctx context.Context) bool {
	snap := m.cfg.Mirror.Snapshot()
	s, incarnation, want := m.applyDrain(snap)
	if snap == nil || incarnation == 0 || s.Err() != nil || snap.Revision < incarnation {
		return true
	}
	own := snap.Member(m.cfg.Address)
	switch {
	case own == nil || own.Incarnation != incarnation:
		// The renewal finds out the reason and ends the session.
		s.RequestRenewal()
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
	return false // checked again when the snapshot changes, or after a pause
}

// AwaitRecorded blocks until the snapshot shows the desired record, or ctx ends. The error is ctx's cause.
func (m *Membership) AwaitRecorded(ctx context.Context) error {
	_, err := m.cfg.Mirror.Wait(ctx, func(s *state.Snapshot) bool {
		own := s.Member(m.cfg.Address)
		return own != nil && own.Encode() == m.Record().Encode()
	})
	return err
}
