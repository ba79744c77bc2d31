package target

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/internal/test/pgserver"
)

const (
	postgresName = "PostgreSQL advisory locks"
	// postgresConnections limits the connections. It is the default limit of a server.
	postgresConnections = 100

	postgresNote = "PostgreSQL's are session-level advisory locks, taken with `pg_advisory_lock` through pgx over TCP. " +
		"The one that holds or awaits one has a connection, out of a " +
		"pool of 100, PostgreSQL's default limit: with more goroutines some wait for a connection first. They lie in the " +
		"server's memory; nothing is written to the disk."
)

// postgresLocks returns the advisory locks of a server that it starts.
func postgresLocks(ctx context.Context) (library, error) {
	server, err := pgserver.Start()
	if err != nil {
		return library{}, err
	}
	cfg, err := pgxpool.ParseConfig(server.URL())
	if err != nil {
		_ = server.Close()
		return library{}, err
	}
	cfg.MaxConns = postgresConnections
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		_ = server.Close()
		return library{}, err
	}
	return library{
		name: postgresName,
		wanter: func(ctx context.Context, name string, _ int) (mutual, error) {
			number := numbered(name)
			var holds *pgxpool.Conn
			return mutual{
				lock: func() (err error) {
					if holds, err = pool.Acquire(ctx); err != nil {
						return err
					}
					if _, err = holds.Exec(ctx, "SELECT pg_advisory_lock($1)", number); err != nil {
						holds.Release()
					}
					return err
				},
				unlock: func() error {
					defer holds.Release()
					var held bool
					if err := holds.QueryRow(ctx, "SELECT pg_advisory_unlock($1)", number).Scan(&held); err != nil {
						return err
					}
					return heldUntilNow(held)
				},
			}, nil
		},
		many: func(ctx context.Context) (func(string) error, func(), error) {
			conn, err := pool.Acquire(ctx)
			if err != nil {
				return nil, nil, err
			}
			hold := func(name string) error {
				_, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", numbered(name))
				return err
			}
			return hold, func() { _ = conn.Hijack().Close(context.Background()) }, nil // this also releases all locks
		},
		close: func() {
			pool.Close()
			_ = server.Close()
		},
	}, nil
}
