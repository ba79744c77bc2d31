//go:build unix

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/internal/test/server"
)

// StartStandby creates a hot standby of the server, which follows it until Promote. args are as for [Start].
func (s *Server) StartStandby(args ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "goverse-postgres-")
	if err != nil {
		return nil, err
	}
	b := &Server{bin: s.bin, dir: dir, args: args, credential: s.credential}
	if err := b.copyPrimary(s); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (s *Server) copyPrimary(primary *Server) error {
	if s.credential != nil {
		if err := os.Chown(s.dir, int(s.credential.Uid), int(s.credential.Gid)); err != nil {
			return err
		}
	}
	made := s.command("pg_basebackup", "--pgdata="+s.dataDir(), "--host="+server.Host, "--port="+primary.port,
		"--username=postgres", "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	if out, err := made.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	return server.Draw(func(port string) error {
		s.port = port
		return s.start()
	})
}

// Promote makes the standby a primary and returns when it accepts writes. It first waits until the standby has
// everything that the former primary has committed; the former primary should accept no writes any more.
func (s *Server) Promote(ctx context.Context, former *Server) error {
	var end string
	if err := queryValue(ctx, former, "select pg_current_wal_flush_lsn()::text", &end); err != nil {
		return err
	}
	for again := time.NewTicker(10 * time.Millisecond); ; {
		var complete bool
		err := queryValue(ctx, s, "select coalesce(pg_last_wal_replay_lsn() >= '"+end+"', false)", &complete)
		if complete || err != nil {
			again.Stop()
			if err != nil {
				return err
			}
			break
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return fmt.Errorf("the standby has not reached %s: %w", end, context.Cause(ctx))
		}
	}
	return s.PromoteNow()
}

// queryValue runs a query that returns one value.
func queryValue(ctx context.Context, s *Server, question string, answer any) error {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the answer has arrived
	return conn.QueryRow(ctx, question).Scan(answer)
}

// PromoteNow makes the standby a primary, whatever it lacks, and returns when it accepts writes.
func (s *Server) PromoteNow() error {
	if out, err := s.command("pg_ctl", "promote", "--pgdata="+s.dataDir(), "--wait").CombinedOutput(); err != nil {
		return fmt.Errorf("pg_ctl promote: %w\n%s", err, out)
	}
	return nil
}
