package claims

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// maxBatch limits the requests in one transaction.
const maxBatch = 256

// request is a request to the server: a claim, or its release.
type request struct {
	claim *Claim
	kind  string
}

// The kinds of requests, and their outcomes; see apply in schema.sql.
const (
	kindAcquire, kindTry, kindRelease = "acquire", "try", "release"

	outcomeGranted, outcomeWaiting, outcomeRefused, outcomeReleased, outcomeFenced = "granted", "waiting", "refused",
		"released", "fenced"
)

// outcome is the server's answer to a request.
type outcome struct {
	seq   int64
	what  string
	token int64
}

// retries are the pauses after requests that failed.
var retries = backoff.Policy{First: 5 * time.Millisecond, Last: 250 * time.Millisecond}

// queueLocked queues the request that a claim is due for. The session's lock is held.
func (s *Session) queueLocked(c *Claim) {
	kind := kindAcquire
	switch {
	case c.releasing:
		kind = kindRelease
	case c.spec.Try:
		kind = kindTry
	}
	s.queue = append(s.queue, &request{c, kind})
	s.requests.Send()
}

// takeBatch takes requests from the queue, ordered by name. Those of one claim stay in their order.
func (s *Session) takeBatch() []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), maxBatch)
	batch := slices.Clone(s.queue[:n])
	if s.queue = s.queue[n:]; len(s.queue) == 0 {
		s.queue = nil
	} else {
		s.requests.Send()
	}
	slices.SortStableFunc(batch, func(a, b *request) int { return strings.Compare(a.claim.name, b.claim.name) })
	return batch
}

// sendRequests sends batch after batch until the session ends.
func (s *Session) sendRequests(conn *connection) {
	defer func() { conn.drop() }()
	for {
		select {
		case <-s.requests:
		case <-s.ctx.Done():
			return
		}
		batch := s.takeBatch()
		if len(batch) == 0 {
			continue
		}
		outcomes, err := s.sendBatch(&conn, batch)
		if err != nil {
			s.failBatch(batch, err)
			continue
		}
		s.recordOutcomes(batch, outcomes)
	}
}

// sendBatch sends a batch until it is answered, the session has ended, or the server refuses it for good. The server
// carries each request out once, however often it is sent: a claim has a number, and before a batch is sent again the
// server process that may still work on it has ended.
func (s *Session) sendBatch(conn **connection, batch []*request) ([]outcome, error) {
	again := backoff.Backoff{Policy: retries}
	for {
		outcomes, err := s.apply(*conn, batch)
		switch {
		case err == nil:
			return outcomes, nil
		case pg.CodeOf(err) == codeSessionEnded:
			s.end(session.ReasonRevoked, err)
			return nil, err
		case s.ctx.Err() != nil, refusedForGood(err):
			return nil, err
		}
		if again.Failures() == 0 {
			s.k.cfg.Logger.Debug("a request to PostgreSQL failed, retrying", "error", logtext.OneLine(err))
		}
		if !(*conn).IsClosed() {
			if !wait.For(s.ctx, again.Next()) {
				return nil, err
			}
			continue
		}
		for {
			next, err := s.replace(*conn)
			if err == nil {
				*conn = next
				break
			}
			if !wait.For(s.ctx, again.Next()) {
				return nil, err
			}
		}
	}
}

const codeSessionEnded = "GV001"

// refusedForGood reports whether the same request would be refused again: for want of rights, tables or functions.
func refusedForGood(err error) bool {
	code := pg.CodeOf(err)
	return code != "" && slices.Contains([]string{"22", "23", "28", "3D", "3F", "42"}, code[:2])
}

// apply sends a batch once.
func (s *Session) apply(conn *connection, batch []*request) ([]outcome, error) {
	kinds, names := make([]string, len(batch)), make([]string, len(batch))
	seqs, shareds := make([]int64, len(batch)), make([]bool, len(batch))
	for i, r := range batch {
		kinds[i], names[i], seqs[i], shareds[i] = r.kind, r.claim.name, r.claim.seq, r.claim.spec.Shared
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.k.cfg.requestTimeout())
	defer cancel()
	rows, err := conn.Query(ctx, s.k.sql.apply, s.id, kinds, names, seqs, shareds)
	if err != nil {
		return nil, err
	}
	outcomes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o outcome, err error) {
		err = row.Scan(&o.seq, &o.what, &o.token)
		return o, err
	})
	if err == nil && len(outcomes) != len(batch) {
		err = errors.New("PostgreSQL answered another number of requests than were sent")
	}
	return outcomes, err
}

// replace returns a connection in place of one that has broken, once the server process of that one has ended: nothing
// that was sent on it can be carried out any more.
func (s *Session) replace(old *connection) (*connection, error) {
	conn, err := s.k.connect(s.ctx)
	if err != nil {
		return nil, err
	}
	if err := s.awaitEnd(conn, old); err != nil {
		conn.drop()
		return nil, err
	}
	return conn, nil
}

// awaitEnd ends the server process of a broken connection, and waits until it has ended.
func (s *Session) awaitEnd(conn, old *connection) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.k.cfg.requestTimeout())
	defer cancel()
	for again := (backoff.Backoff{Policy: retries}); ; {
		var running int
		err := conn.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE pid = $1 AND backend_start = $2`, old.pid, old.started).Scan(&running)
		if err != nil || running == 0 {
			return err
		}
		if !wait.For(ctx, again.Next()) {
			return context.Cause(ctx)
		}
	}
}

// failBatch records that the server refused a batch, or that the session has ended. Acquisitions fail.
// Releases are tried again until the session ends.
func (s *Session) failBatch(batch []*request, err error) {
	if s.ctx.Err() != nil {
		return // endClaims ends all
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range batch {
		if r.kind == kindRelease {
			s.retryReleaseLater(r)
			continue
		}
		r.claim.endLocked(err)
		s.forgetLocked(r.claim)
	}
}

// forgetLocked forgets a claim that the server does not have.
func (s *Session) forgetLocked(c *Claim) {
	if s.claims[c.seq] == c {
		delete(s.claims, c.seq)
		close(c.released)
	}
}

// recordOutcomes records the answers to a batch.
func (s *Session) recordOutcomes(batch []*request, outcomes []outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range outcomes {
		r := batch[i]
		c := r.claim
		switch o.what {
		case outcomeGranted:
			c.grantLocked(o.token)
		case outcomeWaiting:
			if c.phase == phaseRequested {
				c.phase = phaseWaiting
				s.polls.Send()
			}
		case outcomeRefused:
			c.endLocked(ErrRefused)
			s.forgetLocked(c)
		case outcomeReleased:
			if r.kind == kindRelease {
				s.forgetLocked(c)
			}
		case outcomeFenced:
			s.retryReleaseLater(r)
		}
	}
}

// fencedRetry is the pause before the release of a claim that a transaction of the user's has locked is tried again.
const fencedRetry = 20 * time.Millisecond

// retryReleaseLater queues a release again after a pause.
func (s *Session) retryReleaseLater(r *request) {
	pause := fencedRetry + time.Duration(rand.Int64N(int64(fencedRetry)))
	s.k.tasks.Go(func(context.Context) {
		if wait.For(s.ctx, pause) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.queueLocked(r.claim)
		}
	})
}

// recordNotification records a grant that the server has notified.
func (s *Session) recordNotification(payload string) {
	seq, token, ok := parseNotification(payload)
	if !ok {
		return
	}
	s.recordGrants(map[int64]int64{seq: token})
}

// recordGrants records the tokens of claims by number, 0 for one that waits.
func (s *Session) recordGrants(tokens map[int64]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for seq, token := range tokens {
		if c := s.claims[seq]; c != nil && token != 0 {
			c.grantLocked(token)
		}
	}
}
