package watchcache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/etcd/watchprogress"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Run reads, watches and rebuilds until ctx ends. It returns the error of ctx once all its goroutines have
// ended.
func (m *Mirror) Run(ctx context.Context) error {
	retry := backoff.Backoff{Policy: watchprogress.ReadRetry, Random: m.cfg.Random}
	var pauses watchprogress.ReadPauses
	quiet, next := false, calm // quiet: the trouble was already logged
	for ctx.Err() == nil {
		u := next
		s, err := m.readRange(ctx, u, &quiet)
		var pause time.Duration
		next = calm
		if err == nil {
			retry.Reset()
			var stood time.Duration
			stood, err = m.watchUntilRead(ctx, u, s)
			if errors.Is(err, errNamed) {
				// The member of etcd of the watch may be lost with a member that was just removed. Its mark is deleted soon.
				next, pause = urgent, watchprogress.SoonPause(m.cfg.Random())
			} else {
				pauses, pause = pauses.Next(stood, m.cfg.LagTimeout, m.cfg.Random())
			}
		} else {
			next, pause = u, retry.Next()
		}
		if ctx.Err() != nil {
			break
		}
		if old := m.Snapshot(); old != nil && !old.Stale {
			m.publishSnapshot(old.AsStale())
		}
		if !quiet {
			m.log.Warn("lost the watch of the cluster's keys, reading them again", "reason", err,
				"in", pause.Round(time.Millisecond).String())
			quiet = true
		}
		wait.For(ctx, pause) // members linger meanwhile: what they report is not seen
	}
	return ctx.Err()
}

// readRange reads the range and publishes it.
func (m *Mirror) readRange(ctx context.Context, u urgency, quiet *bool) (*state.Snapshot, error) {
	// This read answers all requests for a rebuild made before it.
	select {
	case <-m.rebuild:
	default:
	}
	known, sent := m.KnownRevision(), time.Now()
	resp, err := m.read(ctx, u)
	if err != nil {
		err = fmt.Errorf("read %s: %w", m.cfg.Keys.Prefix(), err)
		m.readErr.Store(&err)
		return nil, err
	}
	m.readErr.Store(nil)
	next, term := snapshotOf(m.cfg.Keys, resp), resp.Header.GetRaftTerm()
	m.recordTerm(term)
	if old := m.Snapshot(); old != nil {
		m.rebuilds.Add(1)
		next.History = old.History
		if next.ClusterID != old.ClusterID || next.Revision < known {
			next.History++
			m.knownRevision.Store(next.Revision) // no revision of the other history is known yet
			m.knownTerm.Store(term)
			m.log.Error("etcd's history is not the one seen before: it was restored or replaced; starting over",
				"cluster_id_before", fmt.Sprintf("%x", old.ClusterID), "cluster_id", fmt.Sprintf("%x", next.ClusterID),
				"revision_before", known, "revision", next.Revision)
		}
	}
	m.recordRevision(next.Revision)
	m.age.recordRead(next.Revision, sent)
	now := time.Now()
	m.lingering, next = m.lingering.OnTerm(m.knownTerm.Load()).OnRead(m.Snapshot(), next, now)
	m.lingering, next, _ = m.lingering.Expire(next, sent) // what was reported since may be missing
	m.publishSnapshot(next)
	if *quiet {
		m.log.Info("the watch of the cluster's keys is restored", "revision", next.Revision)
		*quiet = false
	}
	return next, nil
}

func (m *Mirror) applyEvents(s *state.Snapshot, events []*clientv3.Event) *state.Snapshot {
	folded := make([]state.Event, len(events))
	for i, ev := range events {
		folded[i] = state.Event{KV: toKV(ev.Kv), Deleted: ev.Type == mvccpb.Event_DELETE}
	}
	now := time.Now()
	m.lingering, s = m.lingering.OnTerm(m.knownTerm.Load()).Apply(s, events[len(events)-1].Kv.ModRevision, folded, now)
	m.publishSnapshot(s)
	return s
}

func (m *Mirror) markReady() {
	select {
	case <-m.ready:
	default:
		close(m.ready)
	}
}

func toKV(kv *mvccpb.KeyValue) state.KV {
	return state.KV{Key: string(kv.Key), Value: kv.Value, CreateRevision: kv.CreateRevision,
		ModRevision: kv.ModRevision, Lease: kv.Lease}
}
