package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster/internal/following"
	"github.com/goverse/goverse/cluster/state"
)

const (
	firstRetry = 25 * time.Millisecond
	lastRetry  = time.Second

	progressTimeout = 100 * time.Millisecond
)

var errNotOpened = errors.New("etcd did not open the watch")

// Run reads, watches and rebuilds until ctx ends, and returns then, with ctx's
// error, when all it started has ended.
func (m *Mirror) Run(ctx context.Context) error {
	retry := firstRetry
	quiet := false // the trouble was said already
	for ctx.Err() == nil {
		started := time.Now()
		err := m.readAndWatch(ctx, &quiet)
		if ctx.Err() != nil {
			break
		}
		if old := m.Snapshot(); old != nil && !old.Stale {
			m.publish(old.AsStale())
		}
		if !quiet {
			m.log.Warn("lost the view of the cluster, reading it anew", "reason", err)
			quiet = true
		}
		// A watch that lasted, or a wished-for rebuild, is followed at once.
		if time.Since(started) > lastRetry || errors.Is(err, errRebuild) {
			retry = firstRetry
			if errors.Is(err, errRebuild) {
				continue
			}
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
		}
		retry = min(2*retry, lastRetry)
	}
	return ctx.Err()
}

func (m *Mirror) readAndWatch(ctx context.Context, quiet *bool) error {
	// What is asked for before this read is answered by it.
	select {
	case <-m.rebuild:
	default:
	}
	known := m.Known()
	rctx, cancel := context.WithTimeout(ctx, m.cfg.ReadTimeout)
	next, err := Read(rctx, m.cfg.Client, m.cfg.Keys)
	cancel()
	if err != nil {
		m.trouble.Store(&err)
		return err
	}
	m.trouble.Store(nil)
	if old := m.Snapshot(); old != nil {
		m.rebuilds.Add(1)
		next.History = old.History
		if next.ClusterID != old.ClusterID || next.Revision < known {
			next.History++
			m.known.Store(next.Revision) // of the other history nothing is known
			m.log.Error("etcd's history is not the one seen before: it was restored or replaced; starting over",
				"cluster_id_before", fmt.Sprintf("%x", old.ClusterID), "cluster_id", fmt.Sprintf("%x", next.ClusterID),
				"revision_before", known, "revision", next.Revision)
		}
	}
	m.learn(next.Revision)
	m.publish(next)
	if *quiet {
		m.log.Info("the view of the cluster is current again", "revision", next.Revision)
		*quiet = false
	}
	err = m.watch(ctx, next)
	if errors.Is(err, errNotOpened) && ctx.Err() == nil {
		// The client's endpoints get its requests in turn. With a bad one of two, a watch
		// after another read would be the bad one's again, for ever.
		err = m.watch(ctx, next)
	}
	return err
}

// watch folds events into snapshots until the watch fails or lags.
func (m *Mirror) watch(ctx context.Context, s *state.Snapshot) error {
	// The stream is this mirror's own, so that its progress requests are not
	// answered to every other mirror on the same client.
	ctx = metadata.AppendToOutgoingContext(ctx, "goverse-mirror", m.stream)
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	// Watch itself blocks until etcd has opened the stream.
	opening := time.AfterFunc(m.cfg.LagTimeout, cancel)
	w := following.Since(s.Revision)
	events := m.cfg.Client.Watch(ctx, m.cfg.Keys.RangeStart(), clientv3.WithRange(m.cfg.Keys.RangeEnd()),
		clientv3.WithRev(w.From()), clientv3.WithCreatedNotify())
	if !opening.Stop() {
		return errNotOpened
	}

	lag := time.NewTimer(m.cfg.LagTimeout)
	defer lag.Stop()
	set := func(timer following.Timer) {
		switch timer {
		case following.Stop:
			lag.Stop()
		case following.Start:
			lag.Reset(m.cfg.LagTimeout)
			// Short, because events wait meanwhile; no answer is what the timer is for.
			pctx, cancel := context.WithTimeout(ctx, progressTimeout)
			_ = m.cfg.Client.RequestProgress(pctx)
			cancel()
		}
	}
	var timer following.Timer
	for {
		select {
		case resp, ok := <-events:
			if !ok {
				return errors.New("the watch ended")
			}
			if err := resp.Err(); err != nil {
				if !w.Opened() {
					return fmt.Errorf("%w: %w", errNotOpened, err)
				}
				return fmt.Errorf("watch: %w", err)
			}
			if !w.Opened() {
				m.watching()
			}
			if resp.Header.ClusterId != s.ClusterID {
				return fmt.Errorf("%w: the watch is answered by another etcd", errRebuild)
			}
			if len(resp.Events) > 0 {
				s = m.fold(s, resp.Events)
			}
			w, timer = w.Answered(resp.Header.Revision, resp.Created, m.Known())
			m.learn(w.Reached())
			set(timer)
		case <-m.poke:
			w, timer = w.Told(m.Known())
			set(timer)
		case reason := <-m.rebuild:
			return fmt.Errorf("%w: %s", errRebuild, reason)
		case <-lag.C:
			if !w.Opened() {
				return errNotOpened
			}
			return fmt.Errorf("%w: the watch is at revision %d and should be at %d", errRebuild, w.Reached(), w.Awaited())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *Mirror) fold(s *state.Snapshot, events []*clientv3.Event) *state.Snapshot {
	folded := make([]state.Event, len(events))
	for i, ev := range events {
		folded[i] = state.Event{KV: toKV(ev.Kv), Deleted: ev.Type == mvccpb.Event_DELETE}
	}
	s = s.Apply(events[len(events)-1].Kv.ModRevision, folded)
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
