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
	"github.com/goverse/goverse/internal/wait"
)

// maxBatch limits the requests in one transaction.
const maxBatch = 256

// request is a request to the server: a claim, or its release.
type request struct {
	claim    *Claim
	kind     string
	unsure   bool // the server may have carried it out: an answer was lost
	failures int
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
	s.queue = append(s.queue, &request{claim: c, kind: kind})
	s.requests.Send()
}

// takeBatch takes requests from the queue, ordered by name. Those of one claim stay in their order.
func (s *Session) takeBatch() []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for name, until := range s.locked {
		if now.After(until) {
			delete(s.locked, name)
		}
	}
	var batch, rest []*request
	for i, r := range s.queue {
		if len(batch) == maxBatch {
			rest = append(rest, s.queue[i:]...)
			s.requests.Send()
			break
		}
		if _, locked := s.locked[r.claim.name]; locked {
			rest = append(rest, r)
		} else {
			batch = append(batch, r)
		}
	}
	s.queue = rest
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
		s.deliver(&conn, batch)
	}
}

// deliver sends a batch and records the answers. If the server refuses the batch, each request is sent alone: one of
// them may be the reason.
func (s *Session) deliver(conn **connection, batch []*request) {
	outcomes, err := s.sendBatch(conn, batch)
	switch {
	case s.ctx.Err() != nil:
		return // endClaims ends all
	case err == nil:
		s.recordOutcomes(batch, outcomes)
		return
	case len(batch) == 1 && pg.CodeOf(err) == pg.CodeLockNotAvailable:
		s.leaveAlone(batch)
		return
	case len(batch) == 1:
		s.fail(batch[0], err)
		return
	}
	for len(batch) > 0 {
		n := 1
		for n < len(batch) && batch[n].claim.name == batch[0].claim.name {
			n++
		}
		for i := range batch[:n] {
			s.deliver(conn, batch[i:i+1])
			if s.isLocked(batch[i].claim.name) {
				s.leaveAlone(batch[i+1 : n])
				break
			}
		}
		batch = batch[n:]
	}
}

// isLocked reports whether a name is left alone because another program has locked its row.
func (s *Session) isLocked(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, locked := s.locked[name]
	return locked
}

// leaveAlone puts requests for one name back to the head of the queue for a
// while.
func (s *Session) leaveAlone(batch []*request) {
	if len(batch) == 0 {
		return
	}
	pause := 4 * s.k.cfg.lockTimeout()
	s.mu.Lock()
	s.locked[batch[0].claim.name] = time.Now().Add(pause)
	s.queue = append(slices.Clone(batch), s.queue...)
	s.mu.Unlock()
	s.k.tasks.Go(func(context.Context) {
		if wait.For(s.ctx, pause) {
			s.requests.Send()
		}
	})
}

// sendBatch sends a batch until it is answered, the session has ended, the server refuses it for good, or another
// program has locked a row. The server carries each request out once, however often it is sent: a claim has a number,
// and before a batch is sent again the server process that may still work on it has ended.
func (s *Session) sendBatch(conn **connection, batch []*request) ([]outcome, error) {
	again := backoff.Backoff{Policy: retries}
	for {
		outcomes, err := s.apply(*conn, batch)
		switch {
		case err == nil:
			s.recordSuccess(useCommands)
			return outcomes, nil
		case pg.CodeOf(err) == codeSessionEnded:
			s.end(session.ReasonRevoked, err)
			return nil, err
		case s.ctx.Err() != nil, pg.RefusedForGood(err), pg.CodeOf(err) == pg.CodeLockNotAvailable:
			return nil, err
		case pg.CodeOf(err) == "":
			for _, r := range batch {
				r.unsure = true
			}
		}
		s.recordFailure(useCommands, err)
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
			s.recordFailure(useCommands, err)
			if !wait.For(s.ctx, again.Next()) {
				return nil, err
			}
		}
	}
}

// codeSessionEnded is the code of the error that apply raises; see schema.sql.
const codeSessionEnded = "GV001"

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
		// Another user, such as the former one of credentials that expire, sees no backend_start and may end nothing.
		err := conn.QueryRow(ctx, `SELECT count(CASE WHEN backend_start IS NULL THEN false ELSE pg_terminate_backend(pid) END)
			FROM pg_stat_activity WHERE pid = $1 AND (backend_start = $2 OR backend_start IS NULL)`,
			old.pid, old.started).Scan(&running)
		if err != nil || running == 0 {
			return err
		}
		if !wait.For(ctx, again.Next()) {
			return context.Cause(ctx)
		}
	}
}

// fail records that the server has refused a request. An acquisition fails; it is released if it may have been carried
// out. A release is tried again until the session ends.
func (s *Session) fail(r *request, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := r.claim
	switch {
	case s.claims[c.seq] != c: // the server does not have it
	case r.kind == kindRelease:
		r.failures++
		s.retryReleaseLater(r, refusedRetries.Delay(r.failures, rand.Float64()))
	case c.phase == phaseGranted: // by an attempt without an answer
	case !r.unsure:
		c.endLocked(err)
		s.forgetLocked(c)
	case c.phase != phaseEnded: // otherwise its release is queued
		c.endLocked(err)
		c.releasing = true
		s.queueLocked(c)
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
			s.retryReleaseLater(r, fencedRetry+time.Duration(rand.Int64N(int64(fencedRetry))))
		}
	}
}

// fencedRetry is the pause before the release of a claim that a transaction of the user's has locked is tried again.
const fencedRetry = 20 * time.Millisecond

// refusedRetries are the pauses before a release that was refused is tried again.
var refusedRetries = backoff.Policy{First: fencedRetry, Last: 10 * time.Second}

// retryReleaseLater queues a release again after a pause.
func (s *Session) retryReleaseLater(r *request, pause time.Duration) {
	s.k.tasks.Go(func(context.Context) {
		if wait.For(s.ctx, pause) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.queue = append(s.queue, r)
			s.requests.Send()
		}
	})
}

// recordGrants records the tokens of claims by number, 0 for one that waits. It returns the number of grants.
func (s *Session) recordGrants(tokens map[int64]int64) (granted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for seq, token := range tokens {
		if c := s.claims[seq]; c != nil && token != 0 {
			c.grantLocked(token)
			granted++
		}
	}
	return granted
}
