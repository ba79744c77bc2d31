package pgnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// refreshEvery is the time between two heartbeats, each with a read of the nodes.
	refreshEvery = time.Second
	// refreshPause is the least time between two reads of the nodes, whatever is notified.
	refreshPause = 50 * time.Millisecond
	// staleAfter is the age from which on the view is not relied on.
	staleAfter = 3 * refreshEvery
	// leaveTimeout limits the requests of a node that leaves.
	leaveTimeout = 5 * time.Second
	// reportDelay is the time that a former leader has to record the end of its term with the exact reason.
	reportDelay = 2 * time.Second
	// maxPending limits the ends of terms and of sessions that wait to be recorded.
	maxPending = 100
)

// run keeps the node registered, and its view fresh, until it leaves or ctx, the context of its session, ends.
func (n *Node) run(ctx context.Context) {
	defer n.end()
	ctx, stop := wait.MergeContexts(ctx, n.ctx)
	defer stop()
	n.tasks.Go(n.followElection)
	n.tasks.Go(n.followSession)
	if n.candidate != nil {
		n.tasks.Go(func(context.Context) { n.recordTerms() })
	}
	for ctx.Err() == nil {
		n.step(ctx)
	}
	n.tasks.Close(ErrStopped) // waits for the end of the candidacy
	n.leave()
	n.stopJobs()
	_ = n.observed.Close()
	n.signalChange()
}

// followElection refreshes the view when the leader or the queue changes.
func (n *Node) followElection(ctx context.Context) {
	changes, err := n.observed.Watch(ctx)
	if err != nil {
		return // the session was closed
	}
	for range changes {
		n.signalChange()
		n.requestRefresh()
	}
}

// followSession wakes run when the session is lost or another one is open.
func (n *Node) followSession(ctx context.Context) {
	for ctx.Err() == nil {
		s, changed := n.keeper.WatchCurrent()
		n.waker.wake()
		if s == nil {
			_ = wait.UntilClosed(ctx, changed)
			continue
		}
		select {
		case <-s.Context().Done():
			n.recordLoss(s.ID(), context.Cause(s.Context()))
		case <-ctx.Done():
			return
		}
		_ = wait.UntilClosed(ctx, changed)
	}
}

// recordLoss records that a session was lost.
func (n *Node) recordLoss(id int64, why error) {
	if !errors.Is(why, session.ErrLost) {
		return // closed
	}
	n.mu.Lock()
	n.losses++
	if len(n.lost) < maxPending {
		n.lost = append(n.lost, lostSession{id: id, reason: string(session.ReasonOf(why)), at: time.Now()})
	}
	n.mu.Unlock()
	n.signalChange()
}

// recordTerms records the beginning and the end of each term of this node.
func (n *Node) recordTerms() {
	// The error says that the node leaves, or that the session was closed.
	_ = n.candidate.LeadEach(context.Background(), func(ctx context.Context, t leaderelection.Term) error {
		n.mu.Lock()
		n.terms++
		n.term = &termRecord{token: t.Token(), acquired: t.AcquiredAt()}
		n.mu.Unlock()
		n.requestRefresh()
		<-ctx.Done()
		over := n.termOverError(t.Token(), context.Cause(ctx))
		n.mu.Lock()
		ended := *n.term
		ended.ended, ended.why = time.Now(), over.Reason
		n.term, n.lastEnd = nil, over
		if len(n.ends) < maxPending {
			n.ends = append(n.ends, ended)
		}
		n.mu.Unlock()
		n.requestRefresh()
		return nil
	})
}

// termOverError returns the error of a term that has ended for that cause.
func (n *Node) termOverError(token int64, why error) *leaderelection.TermOverError {
	if over, ok := errors.AsType[*leaderelection.TermOverError](why); ok {
		return over
	}
	reason := leaderelection.ReasonOf(why)
	if errors.Is(why, ErrStopped) {
		reason = leaderelection.ReasonStopped
	}
	return &leaderelection.TermOverError{Election: n.cfg.Election, Token: token, Reason: reason, Err: why}
}

// requestRefresh makes run read the nodes at once. Unlike a notification, it follows from a change.
func (n *Node) requestRefresh() {
	n.mu.Lock()
	n.wantRefresh = true
	n.mu.Unlock()
	n.waker.wake()
}

// step sends the requests that are due, and waits until the next one is.
func (n *Node) step(ctx context.Context) {
	conn, err := n.connect(ctx)
	if err == nil {
		err = n.work(ctx, conn)
	}
	n.noteOutcome(ctx, err)
	if conn == nil || conn.IsClosed() {
		n.awaitConn(ctx)
		return
	}
	n.failures = 0
	n.rest(ctx, conn)
}

// work sends the requests that are due. It returns the error of those that register the node and read the nodes.
func (n *Node) work(ctx context.Context, conn *pgx.Conn) error {
	n.runJobs(ctx, conn)
	for _, channel := range takeNotifications(conn) {
		n.takeHint(channel)
	}
	n.mu.Lock()
	n.urgent = n.urgent || n.wantRefresh
	n.wantRefresh = false
	n.mu.Unlock()
	now, err := time.Now(), n.lastError()
	if n.mustRegister() && !now.Before(n.registerAt) {
		n.registerAt = now.Add(duplicateRetry)
		holder, e := n.register(ctx, conn)
		if e == nil && holder != nil {
			e = fmt.Errorf("%w (id %q, host %q)", ErrDuplicate, n.id, *holder)
		}
		n.urgent, err = true, e
	}
	if n.refreshDue(now) <= 0 && !conn.IsClosed() {
		if e := n.refresh(ctx, conn); e != nil || !n.mustRegister() {
			err = e
		}
		if err == nil {
			n.record(ctx, conn)
		}
	}
	if n.newEvents && now.Sub(n.eventsAt) >= eventsPause && !conn.IsClosed() {
		_ = n.readEvents(ctx, conn) // the next refresh finds it, too
	}
	return err
}

// mustRegister reports whether there is a session on which the node has not registered.
func (n *Node) mustRegister() bool {
	s, _ := n.keeper.WatchCurrent()
	return s != nil && s != n.session
}

// refreshDue returns the time until the next refresh.
func (n *Node) refreshDue(now time.Time) time.Duration {
	if n.urgent {
		return 0
	}
	if n.hinted {
		return n.readAt.Add(refreshPause).Sub(now)
	}
	return n.readAt.Add(refreshEvery).Sub(now)
}

// record records changes of the cluster. After a failure it tries again at the next refresh.
func (n *Node) record(ctx context.Context, conn *pgx.Conn) {
	err := n.recordPending(ctx, conn)
	if err == nil {
		err = n.doChores(ctx, conn)
	}
	if err != nil && !n.unrecorded && ctx.Err() == nil {
		n.log.Warn("could not record a change of the cluster, retrying", "error", logtext.OneLine(err))
	}
	n.unrecorded = err != nil
}

func (n *Node) lastError() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lastErr
}

// noteOutcome logs the beginning and the end of failures.
func (n *Node) noteOutcome(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	n.lastErr = err
	n.mu.Unlock()
	switch {
	case err != nil && !n.failing:
		n.log.Warn("the node cannot refresh its registration or its view, retrying", "node", n.id,
			"error", logtext.OneLine(pg.WithRemedy(err)))
		v := *n.seen.Load()
		v.failing = true
		n.seen.Store(&v)
		n.signalChange()
	case err == nil && n.failing:
		n.log.Info("the node is registered, and its view is fresh again", "node", n.id)
	}
	n.failing = err != nil
}

// rest waits for notifications until something is due, or the node is woken.
func (n *Node) rest(ctx context.Context, conn *pgx.Conn) {
	now := time.Now()
	due := now.Add(n.refreshDue(now))
	if n.mustRegister() && n.registerAt.Before(due) {
		due = n.registerAt
	}
	if at := n.eventsAt.Add(eventsPause); n.newEvents && at.Before(due) {
		due = at
	}
	ctx, cancel := n.waker.sleep(ctx, time.Until(due))
	defer cancel()
	for ctx.Err() == nil {
		note, err := conn.WaitForNotification(ctx)
		if err != nil {
			return // it is time, or the connection has ended
		}
		if n.takeHint(note.Channel).Before(due) {
			return // the next rest ends sooner
		}
	}
}

// takeHint notes that something has been notified. It returns the time at which a read is due therefore.
func (n *Node) takeHint(channel string) (due time.Time) {
	if channel == eventsChannel {
		n.newEvents = true
		return n.eventsAt.Add(eventsPause)
	}
	n.hinted = true // the connection listens to two channels
	return n.readAt.Add(refreshPause)
}

// takeNotifications takes all notifications that the connection has received, and returns the channels. The connection
// keeps those that come with the answers to requests until they are taken: a flood of them would otherwise grow while
// each read takes longer than the pause between two reads.
func takeNotifications(conn *pgx.Conn) (channels []string) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for !conn.IsClosed() {
		note, err := conn.WaitForNotification(ended)
		if err != nil {
			break
		}
		if !slices.Contains(channels, note.Channel) {
			channels = append(channels, note.Channel)
		}
	}
	return channels
}

// part returns this node's part in the election, as it reports it. term is its present term, or nil.
func (n *Node) ownPart(term *termRecord) cluster.MemberState {
	switch {
	case n.cfg.Observer:
		return cluster.MemberObserver
	case term != nil:
		return cluster.MemberLeader
	case n.candidate == nil:
		return cluster.MemberFollower
	}
	queue := n.observed.Queue()
	for _, id := range queue {
		if id == n.id {
			return cluster.MemberCandidate
		}
	}
	return cluster.MemberFollower
}

// presentTerm returns this node's term while it leads, or nil.
func (n *Node) presentTerm() *termRecord {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.term == nil || !n.candidate.IsLeader() {
		return nil
	}
	t := *n.term
	return &t
}
