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

// reopen ends a watch that another one can continue, because nothing is missing up to a revision.
type reopen struct {
	upTo   int64
	reason string
}

func (r *reopen) Error() string { return r.reason }

// follow watches from the revision of the snapshot that was read, until the range has to be read anew. It
// returns how long the last watch stood.
func (m *Mirror) follow(ctx context.Context, s *state.Snapshot) (stood time.Duration, err error) {
	m.way = m.way.Read()
	upTo, again := s.Revision, false
	for {
		stood, err = m.watch(ctx, upTo)
		var next *reopen
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

// watch folds the events after a revision into snapshots until the watch fails or lags. It returns how long it
// stood.
func (m *Mirror) watch(ctx context.Context, upTo int64) (stood time.Duration, err error) {
	s := m.Snapshot()
	// The stream belongs to this mirror alone, so that its progress requests are not answered to every other
	// mirror on the same client.
	ctx = metadata.AppendToOutgoingContext(ctx, "goverse-mirror", m.stream)
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	var checks sync.WaitGroup
	defer checks.Wait()
	defer cancel()
	// Watch itself blocks until etcd has opened the stream.
	opening := time.AfterFunc(m.cfg.LagTimeout, cancel)
	w := watchprogress.Since(upTo)
	events := m.cfg.Client.Watch(ctx, m.start(), clientv3.WithRange(m.cfg.Keys.RangeEnd()),
		clientv3.WithRev(w.From()), clientv3.WithCreatedNotify())
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
	set := func(timer watchprogress.Timer) {
		switch timer {
		case watchprogress.Stop:
			lag.Stop()
		case watchprogress.Start:
			lag.Reset(m.cfg.LagTimeout)
			if !m.way.Reports() {
				return
			}
			// The timeout is short because events wait meanwhile. The timer covers a missing answer.
			pctx, cancel := context.WithTimeout(ctx, progressTimeout)
			_ = m.cfg.Client.RequestProgress(pctx)
			cancel()
		}
	}
	compared := make(chan comparison)
	var timer watchprogress.Timer
	lingering := time.NewTimer(0)
	defer lingering.Stop()
	for {
		select {
		case resp, ok := <-events:
			if !ok {
				return 0, errors.New("the watch ended")
			}
			if err := resp.Err(); err != nil {
				if !w.Opened() {
					return 0, fmt.Errorf("%w: %w", errNotOpened, err)
				}
				return 0, fmt.Errorf("watch: %w", err)
			}
			if !w.Opened() {
				opened = time.Now()
				m.watching()
			}
			switch resp.Header.ClusterId {
			case s.ClusterID:
			case 0: // a proxy has joined this watch to one of its own
				var again bool
				if m.way, again = m.way.Joined(); again {
					m.behindProxy()
					return 0, &reopen{upTo: upTo, reason: "the watch was joined to another one by a proxy"}
				}
			default:
				return 0, fmt.Errorf("%w: the watch is answered by another etcd", errRebuild)
			}
			m.inTerm(resp.Header.RaftTerm)
			if len(resp.Events) > 0 {
				s = m.fold(s, resp.Events)
				if len(s.Lingering) > 0 {
					lingering.Reset(0)
				}
			}
			if resp.IsProgressNotify() {
				m.way = m.way.Reported()
			}
			w, timer = w.Answered(resp.Header.Revision, resp.Created, m.Known())
			m.learn(w.Reached())
			m.age.reach(w.Reached())
			set(timer)
		case <-m.poke:
			w, timer = w.Reported(m.Known())
			set(timer)
		case <-lingering.C:
			var again time.Duration
			if s, again = m.expireLingering(s); again > 0 {
				lingering.Reset(again)
			}
		case reason := <-m.rebuild:
			return 0, fmt.Errorf("%w: %s", errRebuild, reason)
		case <-lag.C:
			if !w.Opened() {
				return 0, errNotOpened
			}
			awaited := w.Awaited()
			checks.Go(func() {
				select {
				case compared <- m.compare(ctx, awaited):
				case <-ctx.Done():
				}
			})
		case c := <-compared:
			if c.revision != w.Awaited() {
				break // an event or a report was faster
			}
			if err := c.with(s); err != nil {
				return 0, fmt.Errorf("%w: %w", errRebuild, err)
			}
			var again bool
			if m.way, again = m.way.Unreported(); again {
				return 0, &reopen{upTo: c.revision, reason: "the watch does not report progress"}
			}
			m.behindProxy()
			w, timer = w.Checked(m.Known())
			m.age.reach(c.revision)
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
	if m.lingers, s, again = m.lingers.Look(s, time.Now()); s != before {
		m.publish(s)
	}
	return s, again
}
