package watchcache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/internal/etcd/watchprogress"
	"github.com/goverse/goverse/internal/state"
)

const progressTimeout = 100 * time.Millisecond

// syncTime is the time after which etcd answers requests for progress of a watch that was opened at a revision of the
// past. Before that it drops them: it brings such watches up to date every 100 ms.
const syncTime = 150 * time.Millisecond

var (
	errNotOpened = errors.New("etcd did not open the watch")
	// errOpeningSlow is returned if etcd did not open the watch in time.
	errOpeningSlow = fmt.Errorf("%w in time", errNotOpened)
)

// reopenError ends a watch that another one can continue, because nothing is missing up to a revision.
type reopenError struct {
	upTo   int64
	reason string
}

func (r *reopenError) Error() string { return r.reason }

// watchUntilRead watches from the revision of the snapshot that was read, until the range has to be read anew. It
// returns how long the last watch stood.
func (m *Mirror) watchUntilRead(ctx context.Context, u urgency, s *state.Snapshot) (stood time.Duration, err error) {
	m.proxyState = m.proxyState.OnRead()
	upTo, again := s.Revision, false
	limit := m.patience(u, m.cfg.LagTimeout)
	for {
		stood, err = m.watchOnce(ctx, upTo, limit)
		var next *reopenError
		switch {
		case ctx.Err() != nil:
			return stood, ctx.Err()
		case errors.As(err, &next):
			upTo, limit = next.upTo, m.patience(calm, m.cfg.LagTimeout)
		case errors.Is(err, errOpeningSlow) && limit < m.cfg.LagTimeout:
			// The endpoint may be gone, and the next watch goes to another one. Longer limits are for an etcd that is slow. All
			// of them together are less than twice the longest one, which is the last.
			if limit *= 2; 2*limit > m.cfg.LagTimeout {
				limit, again = m.cfg.LagTimeout, true
			}
		case errors.Is(err, errNotOpened) && !again:
			// The client's endpoints receive its requests in turn. If one of two is bad, a watch that followed
			// another read would always go to the bad one.
			again = true
		default:
			return stood, err
		}
	}
}

// watch is one watch of the range.
type watch struct {
	m         *Mirror
	ctx       context.Context
	upTo      int64 // the revision that it follows
	snapshot  *state.Snapshot
	progress  watchprogress.Watch
	opened    time.Time   // zero until etcd has opened the watch
	lag       *time.Timer // fires when an awaited revision is late
	sync      *time.Timer // fires when etcd answers requests for progress
	asked     bool        // etcd was asked for the progress since the awaited revision, and should have answered
	lingering *time.Timer // fires when a member may no longer linger
	due       time.Time   // since when a member need not linger any longer, by what was seen; zero: none is due
	complete  bool        // a report since then has shown that all of it was seen
}

// watchOnce folds the events after a revision into snapshots until the watch fails or lags. It returns how long it
// stood. Etcd has to open it within opening.
func (m *Mirror) watchOnce(ctx context.Context, upTo int64, opening time.Duration) (stood time.Duration, err error) {
	w := &watch{m: m, upTo: upTo, snapshot: m.Snapshot(), progress: watchprogress.NewWatch(upTo)}
	// The stream belongs to this mirror alone, so that its progress requests are not answered to every other
	// mirror on the same client.
	ctx = metadata.AppendToOutgoingContext(ctx, "goverse-mirror", m.streamID)
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	var checks sync.WaitGroup
	defer checks.Wait()
	defer cancel()
	w.ctx = ctx
	// Watch itself blocks until etcd has opened the stream.
	began, tooSlow := time.Now(), time.AfterFunc(opening, cancel)
	events := m.cfg.Client.Watch(ctx, m.watchStart(), clientv3.WithRange(m.cfg.Keys.RangeEnd()),
		clientv3.WithRev(w.progress.StartRevision()), clientv3.WithCreatedNotify())
	if !tooSlow.Stop() {
		return 0, errOpeningSlow
	}
	w.lag, w.sync, w.lingering = time.NewTimer(opening-time.Since(began)), time.NewTimer(0), time.NewTimer(0)
	w.sync.Stop()
	w.lingering.Stop() // until the watch is open
	defer w.lag.Stop()
	defer w.sync.Stop()
	defer w.lingering.Stop()
	compared := make(chan comparison)
	for err == nil {
		select {
		case resp, ok := <-events:
			err = w.handleResponse(resp, ok)
		case <-m.wake:
			w.advance(w.progress.OnKnownRevision(m.KnownRevision()))
		case <-w.sync.C:
			if w.progress.AwaitedRevision() != 0 {
				w.asked = w.requestProgress()
			}
		case <-w.lingering.C:
			w.expireLingering()
		case err = <-m.rebuild:
		case <-w.lag.C:
			if !w.progress.IsOpen() {
				return 0, errOpeningSlow
			}
			awaited := w.progress.AwaitedRevision()
			checks.Go(func() {
				select {
				case compared <- m.compareWithEtcd(ctx, calm, awaited):
				case <-ctx.Done():
				}
			})
		case c := <-compared:
			err = w.handleComparison(c)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if !w.opened.IsZero() {
		stood = time.Since(w.opened)
	}
	return stood, err
}

// handleResponse folds the events of an answer into the snapshot. ok is false after the last answer.
func (w *watch) handleResponse(resp clientv3.WatchResponse, ok bool) error {
	m := w.m
	if !ok {
		return errors.New("the watch ended")
	}
	if err := resp.Err(); err != nil {
		if !w.progress.IsOpen() {
			return fmt.Errorf("%w: %w", errNotOpened, err)
		}
		return fmt.Errorf("watch: %w", err)
	}
	if !w.progress.IsOpen() {
		w.opened = time.Now()
		w.lingering.Reset(0)
		m.markReady()
	}
	switch resp.Header.ClusterId {
	case w.snapshot.ClusterID:
	case 0: // a proxy has joined this watch to one of its own
		var again bool
		if m.proxyState, again = m.proxyState.OnJoined(); again {
			m.reportProxy()
			return &reopenError{upTo: w.upTo, reason: "the watch was joined to another one by a proxy"}
		}
	default:
		return fmt.Errorf("%w: the watch is answered by another etcd", errRebuild)
	}
	m.recordTerm(resp.Header.RaftTerm)
	if len(resp.Events) > 0 {
		w.snapshot = m.applyEvents(w.snapshot, resp.Events)
		if len(w.snapshot.Lingering) > 0 && w.due.IsZero() {
			w.lingering.Reset(0)
		}
	}
	if resp.IsProgressNotify() {
		m.proxyState = m.proxyState.OnProgress()
		if !w.due.IsZero() {
			w.complete = true
			w.lingering.Reset(0)
		}
	}
	next, timer := w.progress.OnAnswer(resp.Header.Revision, resp.Created, m.KnownRevision())
	m.recordRevision(next.ReachedRevision())
	m.age.recordReached(next.ReachedRevision())
	w.advance(next, timer)
	return nil
}

// handleComparison ends the watch if a change is missing.
func (w *watch) handleComparison(c comparison) error {
	m := w.m
	if c.revision != w.progress.AwaitedRevision() {
		return nil // an event or a report was faster
	}
	if err := c.checkSnapshot(w.snapshot); err != nil {
		return fmt.Errorf("%w: %w", errRebuild, err)
	}
	switch proxied, again := m.proxyState.OnNoProgress(); {
	case again:
		m.proxyState = proxied
		return &reopenError{upTo: c.revision, reason: "the watch does not report progress"}
	case w.asked:
		m.proxyState = proxied
		m.reportProxy()
	}
	next, timer := w.progress.OnNothingMissing(m.KnownRevision())
	m.age.recordReached(c.revision)
	w.advance(next, timer)
	return nil
}

// advance records the progress and sets the lag timer.
func (w *watch) advance(progress watchprogress.Watch, timer watchprogress.TimerAction) {
	w.progress = progress
	switch timer {
	case watchprogress.StopTimer:
		w.lag.Stop()
	case watchprogress.StartTimer:
		w.lag.Reset(w.m.cfg.LagTimeout)
		w.asked = w.requestProgress()
		if early := min(syncTime, w.m.cfg.LagTimeout/2) - time.Since(w.opened); w.asked && early > 0 {
			w.asked = false
			w.sync.Reset(early)
		}
	}
}

// requestProgress asks etcd how far the watch has come, unless a proxy would not answer. It reports whether the
// request was sent. Its time limit is short, because events wait meanwhile.
func (w *watch) requestProgress() bool {
	if !w.m.proxyState.ExpectsProgress() {
		return false
	}
	ctx, cancel := context.WithTimeout(w.ctx, progressTimeout)
	defer cancel()
	return w.m.cfg.Client.RequestProgress(ctx) == nil
}

// expireLingering removes members from view that no longer linger. Before it does so, a report of etcd's must show that
// no event is on its way that says that they linger for longer: this process may have stood still. Without a report
// it waits for LagTimeout at most.
func (w *watch) expireLingering() {
	m, now := w.m, time.Now()
	members, s, again := m.lingering.Expire(w.snapshot, now)
	if s != w.snapshot {
		if w.due.IsZero() {
			w.due = now
		}
		if !w.complete && now.Sub(w.due) < m.cfg.LagTimeout && w.requestProgress() {
			w.lingering.Reset(syncTime)
			return
		}
		m.lingering, w.snapshot = members, s
		m.publishSnapshot(s)
	}
	w.due, w.complete = time.Time{}, false
	if again > 0 {
		w.lingering.Reset(again)
	}
}
