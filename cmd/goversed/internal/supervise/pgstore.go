//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/leaderelection/postgres"
	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// pgStore is a store in PostgreSQL.
type pgStore struct {
	cfg       Config
	sessions  *pgsession.Session
	elections *postgres.Elections
	locks     *lockpg.Locks
}

// newPostgresClaim opens a session.
func newPostgresClaim(ctx context.Context, cfg Config) (*claim, error) {
	c := &claim{cfg: cfg}
	in := cfg.Postgres
	in.Owner, in.Deadline, in.Logger = ownerName(), cfg.TTL, demoteInfoLogger{cfg.Logger}
	// Wait until nothing that ran under the session is left. Only then is it given up for the others.
	in.OnLost = c.waitIdle
	opened, err := pgsession.Open(ctx, in)
	if err != nil {
		return nil, err
	}
	c.store = &pgStore{cfg: cfg, sessions: opened, locks: lockpg.New(opened),
		elections: postgres.New(opened, postgres.WorkTimeout(workTimeout), postgres.Logger(in.Logger))}
	return c, nil
}

// close implements store. It ends the session.
func (s *pgStore) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*requestTimeout)
	defer cancel()
	if err := s.sessions.Close(ctx); err != nil {
		s.cfg.Logger.Warn("the session could not be ended in PostgreSQL, so that others wait for its deadline", "error",
			logtext.OneLine(err))
	}
}

// pgHolderSession is a session in PostgreSQL.
type pgHolderSession struct {
	pgSession
	ttl time.Duration
}

// pgSession is a session of the keeper.
type pgSession interface {
	Renewal() (ago, left time.Duration)
	Context() context.Context
	ID() int64
}

func (s pgHolderSession) TTL() time.Duration { return s.ttl }
func (s pgHolderSession) Number() int64      { return s.ID() }
func (s pgHolderSession) RequestRenewal()    {} // heartbeats are frequent

// TimeLeft returns 0 once the session has ended: it may be given up then before its deadline, and before the context of
// a term in it has ended, which another goroutine ends.
func (s pgHolderSession) TimeLeft() time.Duration {
	if s.Context().Err() != nil {
		return 0
	}
	_, left := s.Renewal()
	return left
}

func (s *pgStore) session() holderSession {
	if current := s.sessions.Keeper().Current(); current != nil {
		return pgHolderSession{current, s.cfg.TTL}
	}
	return nil
}

func (s *pgStore) awaitSession(ctx context.Context) error {
	for s.session() == nil {
		if !wait.For(ctx, logWaitAfter) {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *pgStore) readFirst(ctx context.Context) (firstEntry, error) {
	conn, err := connectPrimary(ctx, s.cfg.Postgres.URL)
	if err != nil {
		return firstEntry{}, err
	}
	defer closeConn(conn)
	var first firstEntry
	if s.cfg.Election != "" {
		e, err := postgres.Read(ctx, conn, s.cfg.Postgres.Schema, s.cfg.Election)
		if err != nil {
			return first, err
		}
		if e.Length > 0 {
			first = firstEntry{exists: true, owner: e.Candidates[0].Address}
		}
	} else {
		l, err := lockpg.Read(ctx, conn, s.cfg.Postgres.Schema, s.cfg.Lock)
		if err != nil {
			return first, err
		}
		first.exists = l.Length > 0
		if len(l.Holders) > 0 {
			first.owner = l.Holders[0].Owner
		}
	}
	first.own = first.owner == ownerName()
	return first, nil
}

func (s *pgStore) acquire(ctx context.Context) (h *heldClaim, err error) {
	if s.cfg.Election != "" {
		e, err := s.elections.Stand(s.cfg.Election)
		if err != nil {
			return nil, err
		}
		if h, err = acquireTerm(ctx, e); err != nil {
			return nil, err
		}
	} else if h, err = acquireLock(ctx, s.cfg, s.locks); err != nil {
		return nil, err
	}
	kind, name := s.cfg.kindAndName()
	h.keys = pgOuter{kind, name, s.cfg.Shared, h.token}.String()
	return h, nil
}

// pgOuter is an entry of GOVERSE_KEYS about a claim in PostgreSQL.
type pgOuter struct {
	kind, name string
	shared     bool
	token      int64
}

// pgOuterMark begins such an entry. Keys in etcd begin with a slash.
const pgOuterMark = "postgres:"

func (o pgOuter) String() string {
	return fmt.Sprintf("%s%s:%t:%d:%s", pgOuterMark, o.kind, o.shared, o.token, url.QueryEscape(o.name))
}

// parsePgOuter parses an entry of GOVERSE_KEYS. ok is false if it is none about PostgreSQL.
func parsePgOuter(text string) (o pgOuter, ok bool) {
	text, ok = strings.CutPrefix(text, pgOuterMark)
	parts := strings.Split(text, ":")
	if !ok || len(parts) != 4 {
		return o, false
	}
	shared, errShared := strconv.ParseBool(parts[1])
	token, errToken := strconv.ParseInt(parts[2], 10, 64)
	name, errName := url.QueryUnescape(parts[3])
	return pgOuter{parts[0], name, shared, token}, errShared == nil && errToken == nil && errName == nil
}

// outerClaims returns the claims in PostgreSQL, held by processes around this one, that this process may wait for in
// vain.
func (c Config) outerClaims() (all []pgOuter) {
	if c.Try {
		return nil // it does not wait
	}
	kind, name := c.kindAndName()
	for _, text := range strings.Fields(lookupEnv(c.Env, keysEnv)) {
		if o, ok := parsePgOuter(text); ok && o.kind == kind && o.name == name && !(c.Shared && o.shared) {
			all = append(all, o)
		}
	}
	return all
}

// waitsForItself reports whether a process around this one holds what this one would wait for, in this PostgreSQL.
func (c Config) waitsForItself(ctx context.Context) (bool, error) {
	outer := c.outerClaims()
	if len(outer) == 0 {
		return false, nil
	}
	conn, err := connectPrimary(ctx, c.Postgres.URL)
	if err != nil {
		return false, err
	}
	defer closeConn(conn)
	held := map[int64]bool{}
	if c.Election != "" {
		e, err := postgres.Read(ctx, conn, c.Postgres.Schema, c.Election)
		if err != nil {
			return false, ignoreNoTables(err)
		}
		held[e.Leader.Token] = e.Leader.Token != 0
	} else {
		l, err := lockpg.Read(ctx, conn, c.Postgres.Schema, c.Lock)
		if err != nil {
			return false, ignoreNoTables(err)
		}
		for _, h := range l.Holders {
			held[h.Token] = true
		}
	}
	return slices.ContainsFunc(outer, func(o pgOuter) bool { return held[o.token] }), nil
}

// connectPrimary connects to a server that takes writes.
func connectPrimary(ctx context.Context, at string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	cfg, err := pgxpool.ParseConfig(at) // takes the settings of a pool out, as a session does
	if err != nil {
		return nil, err
	}
	if cfg.ConnConfig.ValidateConnect == nil {
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return pgx.ConnectConfig(ctx, cfg.ConnConfig)
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	_ = conn.Close(ctx) // it was only read
}
