package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/leaderelection/postgres"
	"github.com/goverse/goverse/cluster/lock"
	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/pgsession"
)

// Postgres is a connection to the PostgreSQL in which programs without etcd keep their sessions. It only reads. Its
// methods are safe for concurrent use.
type Postgres struct {
	pool   *pgxpool.Pool
	schema string
}

// OpenPostgres returns a connection to the tables in a schema, "" for the default one. It sends no request.
func OpenPostgres(ctx context.Context, url, schema string) (*Postgres, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("--postgres: %w", err) // pgx leaves the password out
	}
	cfg.MaxConns = 2
	if cfg.ConnConfig.ValidateConnect == nil { // a standby may be behind
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("--postgres: %w", err)
	}
	return &Postgres{pool, cmp.Or(schema, pgsession.DefaultSchema)}, nil
}

// Close ends the connection.
func (p *Postgres) Close() error {
	p.pool.Close()
	return nil
}

// Where names the schema, as in "no lock in the schema goverse is held".
func (p *Postgres) Where() string { return "in the schema " + p.schema }

// Codes of PostgreSQL: there is no such table, or no such schema.
const codeNoTable, codeNoSchema = "42P01", "3F000"

// explain adds the remedy to an error.
func (p *Postgres) explain(err error) error {
	if err == nil {
		return nil
	}
	e, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, pgnode.ErrNoTables):
		return fmt.Errorf("no program has joined as a node %s: check --schema and the database in --postgres: %w", p.Where(),
			err)
	case e != nil && (e.Code == codeNoTable || e.Code == codeNoSchema):
		return fmt.Errorf("no program has opened a session %s: check --schema and the database in --postgres: %w", p.Where(),
			err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w in time: check that PostgreSQL runs where --postgres says: %w", ErrPostgres, err)
	}
	return fmt.Errorf("%w: %w", ErrPostgres, err)
}

// step executes one step of a list.
func (p *Postgres) step(timeout time.Duration) stepFunc {
	return func(ctx context.Context, _ string, list func(context.Context) error) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return "", p.explain(list(ctx))
	}
}

// Locks lists the locks that are held or waited for, in the order of their names as stored. It may take until ctx ends:
// timeout only limits one step.
func (p *Postgres) Locks(ctx context.Context, timeout time.Duration, q ListQuery) (List[NamedLock], error) {
	return readList(ctx, p.step(timeout), listSource[NamedLock]{
		name: func(l NamedLock) string { return l.Name },
		read: func(ctx context.Context, after string, limit int) (items []NamedLock, more bool, err error) {
			found, more, err := lockpg.List(ctx, p.pool, p.schema, lock.Query{After: after, Limit: limit})
			for _, s := range found {
				items = append(items, newNamedLock(s))
			}
			return items, more, err
		}}, q)
}

// Elections lists the elections that have candidates, as Locks lists locks.
func (p *Postgres) Elections(ctx context.Context, timeout time.Duration, q ListQuery) (List[NamedElection], error) {
	return readList(ctx, p.step(timeout), listSource[NamedElection]{
		name: func(e NamedElection) string { return e.Name },
		read: func(ctx context.Context, after string, limit int) (items []NamedElection, more bool, err error) {
			found, more, err := postgres.List(ctx, p.pool, p.schema, leaderelection.Query{After: after, Limit: limit})
			for _, s := range found {
				items = append(items, namedElection(s))
			}
			return items, more, err
		}}, q)
}

// Read reads the nodes, and the election that they stand in.
func (p *Postgres) Read(ctx context.Context, election string) (Details, error) {
	s, err := pgnode.Read(ctx, p.pool, p.schema)
	if err != nil {
		return Details{}, p.explain(err)
	}
	return detailsOf(s, election, p.Where()), nil
}

// detailsOf returns the details of the nodes and their election.
func detailsOf(s pgnode.State, election, where string) Details {
	d := Details{View: View{Queue: []string{}, Nodes: []string{}, ClusterSize: len(s.Nodes), Revision: s.Seq,
		Mode: string(leaderelection.ModeElection)}, Members: []Node{}, where: where}
	places, leading := map[int64]int{}, int64(0)
	for _, e := range s.Elections {
		if e.Name != election {
			continue
		}
		d.Lease = e.Lease
		for i, c := range e.Queue {
			d.Queue = append(d.Queue, c.Owner)
			places[c.Session] = i + 1
		}
		if l, ok := e.Leader(); ok {
			d.LeaderID, d.Term, d.Token, leading = l.Owner, l.Token, l.Token, l.Session
			d.Member = slices.ContainsFunc(s.Nodes, func(n pgnode.Row) bool { return n.Session == l.Session })
		}
	}
	for _, r := range s.Nodes {
		d.Nodes = append(d.Nodes, r.ID)
		heartbeat := max(s.ReadAt.Sub(r.Heartbeat), 0).Round(100 * time.Millisecond).Seconds()
		n := Node{Address: r.ID, State: "follower", Place: places[r.Session], Incarnation: r.Incarnation,
			InstanceID: r.Instance, Hostname: r.Host, HTTPAddress: r.URL, Version: r.Version, Labels: r.Labels,
			Goverse: r.Goverse, Observer: r.State == "observer", Gone: !r.Alive, HeartbeatSeconds: &heartbeat}
		switch {
		case leading != 0 && r.Session == leading:
			n.State = "leader"
		case n.Place > 0:
			n.State = "candidate"
		}
		d.Members = append(d.Members, n)
	}
	return d
}

// Events calls show with each event of the log that q selects, oldest first. With follow, Events goes on with new
// events of the same types until ctx ends. Timeout limits the first read. It returns the errors of PostgreSQL, and of
// show.
func (p *Postgres) Events(ctx context.Context, timeout time.Duration, q event.Query, follow bool,
	show func(event.Event) error) error {
	first, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s, err := pgnode.Read(first, p.pool, p.schema) // before the list, so that nothing between them is missed
	if err != nil {
		return p.explain(err)
	}
	found, _, err := pgnode.ListEvents(first, p.pool, p.schema, q)
	if err != nil {
		return p.explain(err)
	}
	shown := map[string]bool{} // the events after the first read
	for _, e := range found {
		if e.Seq > s.Seq {
			shown[e.ID] = true
		}
		if err := show(e); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	return pgnode.FollowEvents(ctx, p.pool, p.schema, s.Seq, func(e event.Event) error {
		if shown[e.ID] || len(q.Types) > 0 && !slices.Contains(q.Types, e.Type) {
			return nil
		}
		return show(e)
	})
}
