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

var errNotOpened = errors.New("etcd did not open the watch")

// reopenError ends a watch that another one can continue, because nothing is missing up to a revision.
type reopenError struct {
	upTo   int64
	reason string
}

func (r *reopenError) Error() string { return r.reason }

// watchUntilRead watches from the revision of the snapshot that was read, until the range has to be read anew. It
// returns how long the last watch stood.
func (m *Mirror) watchUntilRead(ctx context.Context, s *state.Snapshot) (stood time.Duration, err error) {
	m.proxyState = m.proxyState.OnRead()
	upTo, again := s.Revision, false
	for {
		stood, err = m.watchOnce(ctx, upTo)
		var next *reopenError
		switch {
		case ctx.Err() != nil:
			return stood, ctx.Err()
		case errors.As(err, &next):
			upTo = next.upTo
		case errors.Is(err, errNotOpened) && !again:
			// The client's endpoints receive its requests in turn. If one of two is bad, a watch that followed
			// another read would always go to the bad one.
			again = true
		default:
			return stood, err
		}
	}
}

// watchOnce folds the events after a revision into snapshots until the watch fails or lags. It returns how long it
// stood.
func (m *Mirror) watchOnce(ctx context.Context, upTo int64) (stood time.Duration, err error) {
	s := m.Snapshot()
	// The stream belongs to this mirror alone, so that its progress requests are not answered to every other
	// mirror on the same client.
	ctx = metadata.AppendToOutgoingContext(ctx, "goverse-mirror", m.streamID)
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	var checks sync.WaitGroup
	defer checks.Wait()
	defer cancel()
	// Watch itself blocks until etcd has opened the stream.
	opening := time.AfterFunc(m.cfg.LagTimeout, cancel)
	w := watchprogress.NewWatch(upTo)
	events := m.cfg.Client.Watch(ctx, m.watchStart(), clientv3.WithRange(m.cfg.Keys.RangeEnd()),
		clientv3.WithRev(w.StartRevision()), clientv3.WithCreatedNotify())
	if !opening.Stop() {
		return 0, errNotOpened
	}
	var opened time.Time
	defer func() {
		if !opened.IsZero() {
			stood = time.Since(opened)
		}
	}()

	lag := time.NewTimer(m.cfg.LagTimeout)
	defer lag.Stop()
	set := func(timer watchprogress.TimerAction) {
		switch timer {
		case watchprogress.StopTimer:
			lag.Stop()
		case watchprogress.StartTimer:
			lag.Reset(m.cfg.LagTimeout)
			if !m.proxyState.ExpectsProgress() {
				return
			}
			// The timeout is short because events wait meanwhile. The timer covers a missing answer.
			pctx, cancel := context.WithTimeout(ctx, progressTimeout)
			_ = m.cfg.Client.RequestProgress(pctx)
			cancel()
		}
	}
	compared := make(chan comparison)
	var timer watchprogress.TimerAction
	lingering := time.NewTimer(0)
	defer lingering.Stop()
	for {
		select {
		case resp, ok := <-events:
			if !ok {
				return 0, errors.New("the watch ended")
			}
			if err := resp.Err(); err != nil {
				if !w.IsOpen() {
					return 0, fmt.Errorf("%w: %w", errNotOpened, err)
				}
				return 0, fmt.Errorf("watch: %w", err)
			}
			if !w.IsOpen() {
				opened = time.Now()
				m.markReady()
			}
			switch resp.Header.ClusterId {
			case s.ClusterID:
			case 0: // a proxy has joined this watch to one of its own
				var again bool
				if m.proxyState, again = m.proxyState.OnJoined(); again {
					m.reportProxy()
					return 0, &reopenError{upTo: upTo, reason: "the watch was joined to another one by a proxy"}
				}
			default:
				return 0, fmt.Errorf("%w: the watch is answered by another etcd", errRebuild)
			}
			m.recordTerm(resp.Header.RaftTerm)
			if len(resp.Events) > 0 {
				s = m.applyEvents(s, resp.Events)
				if len(s.Lingering) > 0 {
					lingering.Reset(0)
				}
			}
			if resp.IsProgressNotify() {
				m.proxyState = m.proxyState.OnProgress()
			}
			w, timer = w.OnAnswer(resp.Header.Revision, resp.Created, m.KnownRevision())
			m.recordRevision(w.ReachedRevision())
			m.age.recordReached(w.ReachedRevision())
			set(timer)
		case <-m.wake:
			w, timer = w.OnKnownRevision(m.KnownRevision())
			set(timer)
		case <-lingering.C:
			var again time.Duration
			if s, again = m.expireLingering(s); again > 0 {
				lingering.Reset(again)
			}
		case reason := <-m.rebuild:
			return 0, fmt.Errorf("%w: %s", errRebuild, reason)
		case <-lag.C:
			if !w.IsOpen() {
				return 0, errNotOpened
			}
			awaited := w.AwaitedRevision()
			checks.Go(func() {
				select {
				case compared <- m.compareWithEtcd(ctx, awaited):
				case <-ctx.Done():
				}
			})
		case c := <-compared:
			if c.revision != w.AwaitedRevision() {
				break // an event or a report was faster
			}
			if err := c.checkSnapshot(s); err != nil {
				return 0, fmt.Errorf("%w: %w", errRebuild, err)
			}
			var again bool
			if m.proxyState, again = m.proxyState.OnNoProgress(); again {
				return 0, &reopenError{upTo: c.revision, reason: "the watch does not report progress"}
			}
			m.reportProxy()
			w, timer = w.OnNothingMissing(m.KnownRevision())
			m.age.recordReached(c.revision)
			set(timer)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// expireLingering removes members from view that no longer linger. It returns the time after which to look again; 0
// means never.
func (m *Mirror) expireLingering(s *state.Snapshot) (_ *state.Snapshot, again time.Duration) {
	before := s
	if m.lingering, s, again = m.lingering.Expire(s, time.Now()); s != before {
		m.publishSnapshot(s)
	}
	return s, again
}
