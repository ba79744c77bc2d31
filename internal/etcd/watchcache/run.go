package watchcache

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/etcd/watchprogress"
	"github.com/goverse/goverse/internal/state"
)

// Run reads, watches and rebuilds until ctx ends. It returns the error of ctx once all its goroutines have
// ended.
func (m *Mirror) Run(ctx context.Context) error {
	retry := backoff.Backoff{Policy: watchprogress.ReadRetry, Random: m.cfg.Random}
	var pauses watchprogress.Pauses
	quiet := false // the trouble was already logged
	for ctx.Err() == nil {
		s, err := m.read(ctx, &quiet)
		var pause time.Duration
		if err == nil {
			retry.Reset()
			var stood time.Duration
			stood, err = m.follow(ctx, s)
			pauses, pause = pauses.Next(stood, m.cfg.LagTimeout, m.cfg.Random())
		} else {
			pause = retry.Next()
		}
		if ctx.Err() != nil {
			break
		}
		if old := m.Snapshot(); old != nil && !old.Stale {
			m.publish(old.AsStale())
		}
		if !quiet {
			m.log.Warn("lost the watch of the cluster's keys, reading them again", "reason", err,
				"in", pause.Round(time.Millisecond).String())
			quiet = true
		}
		m.rest(ctx, pause)
	}
	return ctx.Err()
}

// rest waits for the pause before the range is read anew, or until ctx ends. Meanwhile it removes members that
// no longer linger.
func (m *Mirror) rest(ctx context.Context, pause time.Duration) {
	over := time.NewTimer(pause)
	defer over.Stop()
	lingering := time.NewTimer(0)
	defer lingering.Stop()
	for {
		select {
		case <-over.C:
			return
		case <-lingering.C:
			if s := m.Snapshot(); s != nil {
				if _, again := m.expireLingering(s); again > 0 {
					lingering.Reset(again)
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// read reads the range and publishes it.
func (m *Mirror) read(ctx context.Context, quiet *bool) (*state.Snapshot, error) {
	// This read answers all requests for a rebuild made before it.
	select {
	case <-m.rebuild:
	default:
	}
	known, sent := m.Known(), time.Now()
	rctx, cancel := context.WithTimeout(ctx, m.cfg.ReadTimeout)
	next, term, err := read(rctx, m.cfg.Client, m.cfg.Keys)
	cancel()
	if err != nil {
		m.trouble.Store(&err)
		return nil, err
	}
	m.trouble.Store(nil)
	m.inTerm(term)
	if old := m.Snapshot(); old != nil {
		m.rebuilds.Add(1)
		next.History = old.History
		if next.ClusterID != old.ClusterID || next.Revision < known {
			next.History++
			m.known.Store(next.Revision) // no revision of the other history is known yet
			m.term.Store(term)
			m.log.Error("etcd's history is not the one seen before: it was restored or replaced; starting over",
				"cluster_id_before", fmt.Sprintf("%x", old.ClusterID), "cluster_id", fmt.Sprintf("%x", next.ClusterID),
				"revision_before", known, "revision", next.Revision)
		}
	}
	m.learn(next.Revision)
	m.age.read(next.Revision, sent)
	now := time.Now()
	m.lingers, next = m.lingers.Term(m.term.Load()).Read(m.Snapshot(), next, now)
	m.lingers, next, _ = m.lingers.Look(next, now)
	m.publish(next)
	if *quiet {
		m.log.Info("the watch of the cluster's keys is restored", "revision", next.Revision)
		*quiet = false
	}
	return next, nil
}

func (m *Mirror) fold(s *state.Snapshot, events []*clientv3.Event) *state.Snapshot {
	folded := make([]state.Event, len(events))
	for i, ev := range events {
		folded[i] = state.Event{KV: toKV(ev.Kv), Deleted: ev.Type == mvccpb.Event_DELETE}
	}
	now := time.Now()
	m.lingers, s = m.lingers.Term(m.term.Load()).Apply(s, events[len(events)-1].Kv.ModRevision, folded, now)
	m.publish(s)
	return s
}

func (m *Mirror) watching() {
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
