//go:build unix

package claims

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/pace"
)

// stopper stops server processes when the third query of a process id begins. That is the second one of the connection
// that is probed.
type stopper struct {
	stop    []int32
	queries atomic.Int32
}

// TraceQueryStart implements pgx.QueryTracer.
func (s *stopper) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if q.SQL == "SELECT pg_backend_pid()" && s.queries.Add(1) == 3 {
		for _, pid := range s.stop {
			_ = syscall.Kill(int(pid), syscall.SIGSTOP)
		}
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (s *stopper) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A server that does not answer in time is no pooler, as long as it answers the other connection no sooner.
func TestServerThatStandsStillIsNoPooler(t *testing.T) {
	for name, both := range map[string]bool{"both connections": true, "one connection": false} {
		t.Run(name, func(t *testing.T) {
			pace.Parallel(t)
			db := shared.Database(t)
			tracer := &stopper{}
			cfg, err := pgx.ParseConfig(db.URL())
			require.NoError(t, err)
			cfg.Tracer = tracer
			connect := func() *connection {
				c, err := pgx.ConnectConfig(patient(t), cfg)
				require.NoError(t, err)
				pid := int32(c.PgConn().PID())
				t.Cleanup(func() {
					_ = syscall.Kill(int(pid), syscall.SIGCONT)
					(&connection{Conn: c}).drop()
				})
				return &connection{Conn: c, pid: pid}
			}
			a, b := connect(), connect()
			tracer.stop = []int32{a.pid}
			if both {
				tracer.stop = append(tracer.stop, b.pid)
			}
			err = probePooling(patient(t), a, b)
			if both {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			require.Equal(t, !both, errors.Is(err, ErrPooled))
		})
	}
}
