package claims

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// maxAsked limits the claims that the watcher asks for in one look.
const maxAsked = 500

// hintPause is the least time between two reads for hints that were wrong.
const hintPause = 5 * time.Millisecond

// watcher is a session's view of the others.
type watcher struct {
	s      *Session
	conn   *connection
	looked time.Time // the last look that was answered
	others map[int64]silence
	epoch  epochView
	swept  time.Time // when names were last settled for want of their claims' sessions
	asked  int64     // the number of the claim up to which was asked last

	readDue  *time.Timer // runs while queues are to be read
	readAt   time.Time   // when queues were last read
	lastRead int         // the number of claims that were read then
	allRead  time.Time   // when the queues that are followed were last read, all of them

	shortest time.Duration // the shortest deadline of a session
	inVain   time.Time     // when hints were last read and were wrong
	forgot   string        // the name up to which names were looked at that may be forgotten
}

// epochView records for how long this process has seen an epoch. It is immutable.
type epochView struct {
	id    int64
	lasts time.Duration
}

// observe returns the view after a look, gap after the one before it.
func (v epochView) observe(id int64, gap, deadline time.Duration) epochView {
	if v.id != id {
		return epochView{id: id}
	}
	v.lasts += min(gap, deadline/4)
	return v
}

// watch looks at the other sessions until the session ends.
func (s *Session) watch(conn *connection) {
	w := &watcher{s: s, conn: conn, others: map[int64]silence{}, looked: time.Now(), swept: time.Now(),
		shortest: s.k.cfg.Deadline, readDue: time.NewTimer(0)}
	defer func() { w.conn.drop() }()
	defer w.readDue.Stop()
	again := backoff.Backoff{Policy: retries}
	for s.ctx.Err() == nil {
		if err := w.look(); err != nil && s.ctx.Err() == nil {
			s.recordFailure(useWatcher, err)
			wait.For(s.ctx, again.Next())
			if w.conn.IsClosed() {
				if next, err := s.k.connect(s.ctx); err == nil {
					w.conn = next
				} else {
					s.recordFailure(useWatcher, err)
				}
			}
			continue
		}
		s.recordSuccess(useWatcher)
		again.Reset()
		w.rest()
	}
}

// rest waits until the next look is due.
func (w *watcher) rest() {
	s := w.s
	began, every, poll := time.Now(), s.k.cfg.restEvery(), w.pollEvery()
	if s.hasWaiting() {
		every = min(every, poll)
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-s.polls:
			timer.Reset(min(every, poll) - time.Since(began)) // claims may begin to wait all the time
		case <-s.hints:
			wait.For(s.ctx, time.Until(w.inVain.Add(hintPause)))
			if w.readHints() != nil {
				return
			}
		case <-s.k.reads:
			w.readDue.Reset(time.Until(w.readAt.Add(readPause(w.lastRead)))) // notifications can come from any program
		case <-w.readDue.C:
			if w.readQueues(s.k.requestedReads()) != nil {
				w.allRead = time.Time{}
				return // the next look fails, too, or repairs it
			}
		case <-s.ctx.Done():
			return
		}
	}
}

func (w *watcher) pollEvery() time.Duration { return pollEvery(w.shortest, len(w.others)) }

// hasWaiting reports whether a claim waits.
func (s *Session) hasWaiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		if c.phase == phaseWaiting {
			return true
		}
	}
	return false
}

// look reads the state of the other sessions and of this one's claims, and acts on it.
func (w *watcher) look() error {
	s := w.s
	ctx, cancel := context.WithTimeout(s.ctx, s.k.cfg.requestTimeout())
	defer cancel()
	seen, err := w.read(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	gap := now.Sub(w.looked)
	w.looked = now
	if err := w.openEpoch(ctx, seen, gap); err != nil {
		return err
	}
	s.recordGrants(seen.own)
	s.recordVanished(seen)
	if time.Since(w.allRead) >= s.k.cfg.restEvery() { // notifications report changes sooner
		if err := w.readQueues(s.k.followedNames()); err != nil {
			return err
		}
		w.allRead = now
	}
	ended, err := w.endSilent(ctx, seen, gap)
	if err != nil {
		return err
	}
	return w.settle(ctx, seen, ended)
}

// sight holds the results of one look.
type sight struct {
	epoch  int64
	open   bool
	before time.Duration // the longest deadline of the sessions before the epoch
	others []otherSession
	asked  []int64         // the numbers of claims that were asked for
	own    map[int64]int64 // their tokens, 0 for one that waits
	// unsettled lists the names that this session waits for and that have a claim to delete or to grant.
	unsettled []string
}

type otherSession struct {
	id, beat int64
	deadline time.Duration
}

// read asks for everything in one round trip.
func (w *watcher) read(ctx context.Context) (sight, error) {
	s, sql := w.s, w.s.k.sql
	var names []string
	seen := sight{own: map[int64]int64{}}
	seen.asked, names, w.asked = s.claimsToAsk(w.asked)
	var batch pgx.Batch
	batch.Queue(sql.epoch, rand.Int64()).QueryRow(func(row pgx.Row) error {
		var us int64
		err := row.Scan(&seen.epoch, &seen.open, &us)
		seen.before = deadlineOf(us)
		return err
	})
	batch.Queue(sql.sessions, s.id).Query(func(rows pgx.Rows) (err error) {
		var o otherSession
		var us int64
		_, err = pgx.ForEachRow(rows, []any{&o.id, &o.beat, &us}, func() error {
			o.deadline = deadlineOf(us)
			seen.others = append(seen.others, o)
			return nil
		})
		return err
	})
	if len(seen.asked) > 0 {
		batch.Queue(sql.own, s.id, seen.asked).Query(func(rows pgx.Rows) (err error) {
			var seq, token int64
			_, err = pgx.ForEachRow(rows, []any{&seq, &token}, func() error { seen.own[seq] = token; return nil })
			return err
		})
	}
	if len(names) > 0 {
		batch.Queue(sql.unsettled, names).Query(func(rows pgx.Rows) (err error) {
			seen.unsettled, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	}
	return seen, w.conn.SendBatch(ctx, &batch).Close()
}

// claimsToAsk returns the numbers of claims to ask for, at most maxAsked, beginning after the one with the number
// after, the names of those that wait, and where to go on.
func (s *Session) claimsToAsk(after int64) (seqs []int64, waiting []string, last int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]int64, 0, len(s.claims))
	for seq, c := range s.claims {
		if c.phase == phaseWaiting || c.phase == phaseGranted {
			all = append(all, seq)
		}
	}
	slices.Sort(all)
	first, _ := slices.BinarySearch(all, after+1)
	seqs = append(all[first:], all[:first]...)
	seqs = seqs[:min(len(seqs), maxAsked)]
	for _, seq := range seqs {
		if c := s.claims[seq]; c.phase == phaseWaiting {
			waiting = append(waiting, c.name)
		}
		last = seq
	}
	slices.Sort(waiting)
	return seqs, slices.Compact(waiting), last
}

// recordVanished ends claims if another process has deleted their rows. One that waits is requested again.
func (s *Session) recordVanished(seen sight) {
	var ends []func()
	s.mu.Lock()
	for _, seq := range seen.asked {
		c := s.claims[seq]
		if _, stands := seen.own[seq]; stands || c == nil || c.releasing {
			continue
		}
		switch c.phase {
		case phaseWaiting:
			c.phase = phaseRequested
			s.queueLocked(c)
		case phaseGranted:
			ends = append(ends, c.endLocked(ErrClaimLost))
			s.forgetLocked(c)
		}
	}
	s.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// openEpoch opens the epoch once this process has seen it for the longest deadline of any session before it.
func (w *watcher) openEpoch(ctx context.Context, seen sight, gap time.Duration) error {
	w.epoch = w.epoch.observe(seen.epoch, gap, w.s.k.cfg.Deadline)
	if seen.open || w.epoch.lasts < max(seen.before, w.s.k.cfg.Deadline) {
		return nil
	}
	if _, err := w.conn.Exec(ctx, w.s.k.sql.openEpoch, seen.epoch); err != nil {
		return err
	}
	w.s.k.cfg.Logger.Info("PostgreSQL has started anew, or was promoted: claims are granted again",
		"after", w.epoch.lasts.Round(time.Millisecond).String())
	w.swept = time.Time{}
	return nil
}

// endSilent ends the sessions that have been silent for long enough. It reports whether it ended one.
func (w *watcher) endSilent(ctx context.Context, seen sight, gap time.Duration) (ended bool, err error) {
	next := make(map[int64]silence, len(seen.others))
	w.shortest = w.s.k.cfg.Deadline
	for _, o := range seen.others {
		w.shortest = min(w.shortest, o.deadline)
		before, known := w.others[o.id]
		if !known {
			before.beat = o.beat - 1 // so that it is observed anew
		}
		next[o.id] = before.observe(o.beat, gap, o.deadline)
	}
	w.others = next
	for _, o := range seen.others {
		did, err := w.takeMeasure(ctx, o)
		if err != nil {
			return ended, err
		}
		ended = ended || did
	}
	return ended, nil
}

// takeMeasure takes the measures against one session that may be taken now. It reports whether it has ended the
// session.
func (w *watcher) takeMeasure(ctx context.Context, o otherSession) (ended bool, err error) {
	for {
		now := w.others[o.id]
		m := now.nextMeasure(o.deadline)
		switch m {
		case measureNone:
			return false, nil
		case measureTerminate:
			return false, w.terminate(ctx, o, now)
		}
		var found string
		if err := w.conn.QueryRow(ctx, w.s.k.sql.end, o.id, now.beat, m == measureForce).Scan(&found); err != nil {
			return false, err
		}
		switch found {
		case "ended":
			w.s.k.cfg.Logger.Info("ended a session that was silent", "session", o.id,
				"silent", now.lasts.Round(time.Millisecond).String())
			delete(w.others, o.id)
			return true, nil
		case "alive":
			if now.alive {
				return false, nil
			}
			w.others[o.id] = now.foundAlive()
		default: // it has moved, or another process is about to end it
			return false, nil
		}
	}
}

// terminate ends the connection of a session that is silent.
func (w *watcher) terminate(ctx context.Context, o otherSession, seen silence) error {
	w.others[o.id] = seen.afterTermination()
	log := w.s.k.cfg.Logger.With("session", o.id, "silent", seen.lasts.Round(time.Millisecond).String())
	_, err := w.conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND mode = 'ExclusiveLock' AND objsubid = 1 AND classid = ($1::bigint >> 32)::oid
		AND objid = ($1::bigint & 4294967295)::oid
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, o.id)
	switch {
	case err == nil:
		log.Warn("a session is silent and its connection stands: terminated the connection")
		return nil
	case w.conn.IsClosed():
		return err
	}
	log.Warn("a session is silent and its connection stands, and may not be terminated by this user: it is ended "+
		"later, whatever becomes of the connection", "error", logtext.OneLine(err))
	return nil
}

// settle deletes the claims of sessions that have ended, and grants those behind them.
func (w *watcher) settle(ctx context.Context, seen sight, ended bool) error {
	if len(seen.unsettled) > 0 {
		if _, err := w.conn.Exec(ctx, w.s.k.sql.settle, seen.unsettled); err != nil {
			return err
		}
	}
	if !ended && time.Since(w.swept) < w.s.k.cfg.Deadline {
		return nil
	}
	for n := maxBatch; n == maxBatch; {
		if err := w.conn.QueryRow(ctx, w.s.k.sql.settleEnded, maxBatch).Scan(&n); err != nil {
			return err
		}
		if n == maxBatch && time.Since(w.looked) > w.pollEvery() {
			w.swept = time.Time{} // the rest at the next look, so that grants and other sessions do not wait for it
			return nil
		}
	}
	w.swept = time.Now()
	return w.forgetNames(ctx)
}

// forgetNames deletes some names that have not been claimed for long. When many can be deleted it goes on for a while.
func (w *watcher) forgetNames(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < w.pollEvery(); {
		var deleted int
		if err := w.conn.QueryRow(ctx, w.s.k.sql.forgetNames, w.forgot, maxBatch).Scan(&w.forgot, &deleted); err != nil {
			return err
		}
		if w.forgot == "" || deleted < maxBatch/2 {
			return nil
		}
	}
	return nil
}

// deadlineOf returns the deadline of a row, which any program may have written.
func deadlineOf(us int64) time.Duration {
	return time.Duration(max(MinDeadline.Microseconds(), min(us, MaxDeadline.Microseconds()))) * time.Microsecond
}
