package claims

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/goverse/goverse/cluster/internal/pg"
)

// connection is a connection to one server process.
type connection struct {
	*pgx.Conn
	pid     int32
	started time.Time   // of the server process
	warned  atomic.Bool // the server has sent a warning
}

// settings lists the settings of a connection. A server that does not know one of them is used without it.
func (c Config) settings() [][2]string {
	deadline := c.Deadline
	seconds := strconv.Itoa(max(1, int(deadline/(3*time.Second))))
	return [][2]string{
		{"default_transaction_isolation", "read committed"}, // the functions lock, and look in the next statement
		{"search_path", "pg_catalog"},
		{"statement_timeout", "0"},
		{"transaction_timeout", "0"},
		{"lock_timeout", strconv.FormatInt(c.lockTimeout().Milliseconds(), 10)}, // none on the main connection
		{"idle_in_transaction_session_timeout", "0"},
		{"idle_session_timeout", "0"},
		// The server notices that the process or the network is gone.
		{"client_connection_check_interval", strconv.FormatInt(max(10, (deadline/10).Milliseconds()), 10)},
		{"tcp_user_timeout", strconv.FormatInt(deadline.Milliseconds(), 10)},
		{"tcp_keepalives_idle", seconds},
		{"tcp_keepalives_interval", seconds},
		{"tcp_keepalives_count", "3"},
	}
}

// connect opens a connection to a server that takes writes.
func (k *Keeper) connect(ctx context.Context) (_ *connection, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.requestTimeout())
	defer cancel()
	cfg, err := k.cfg.Connect(ctx)
	if err != nil {
		return nil, err
	}
	cfg = cfg.Copy() // it may be the same for each connection, or that of a pool
	cfg.OnNotification = nil
	for name, value := range map[string]string{ // whatever those of the database and the role are; pgbouncer knows these
		"client_encoding": "UTF8", "standard_conforming_strings": "on", "DateStyle": "ISO",
	} {
		cfg.RuntimeParams[name] = value
	}
	if cfg.ValidateConnect == nil {
		cfg.ValidateConnect = validatePrimary
	}
	c := &connection{}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			c.warned.Store(true)
		}
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c.Conn = conn
	defer func() {
		if err != nil {
			c.drop()
		}
	}()
	err = conn.QueryRow(ctx, `SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()`,
		pgx.QueryExecModeExec).Scan(&c.pid, &c.started) // a pooler may mix up prepared statements
	if err != nil {
		return nil, err
	}
	return c, c.applySettings(ctx, k.cfg.settings())
}

// validatePrimary returns ErrStandby if the server takes no writes.
func validatePrimary(ctx context.Context, conn *pgconn.PgConn) error {
	err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, conn)
	if err != nil && !conn.IsClosed() {
		return ErrStandby
	}
	return err
}

// applySettings makes the settings, each if the server knows it.
func (c *connection) applySettings(ctx context.Context, settings [][2]string) error {
	names, values := []string{}, []string{}
	for _, s := range settings {
		names, values = append(names, s[0]), append(values, s[1])
	}
	_, err := c.Exec(ctx, `SELECT set_config(s.name, w.value, false)
		FROM unnest($1::text[], $2::text[]) w (name, value) JOIN pg_settings s ON s.name = w.name`,
		pgx.QueryExecModeExec, names, values)
	if err != nil {
		return fmt.Errorf("make the settings of a connection: %w", err)
	}
	return nil
}

// drop closes the connection at once.
func (c *connection) drop() {
	if c == nil {
		return
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ended)
}

// finish closes the connection, so that the server's process ends without waiting for the network.
func (c *connection) finish(timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_ = c.Close(ctx)
}

// Probe connects as a session would, and writes nothing. Its errors are those of Open about the connection.
func Probe(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	k := &Keeper{cfg: cfg.withDefaults()}
	a, err := k.connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", pg.WithRemedy(err))
	}
	defer a.finish(time.Second)
	b, err := k.connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", pg.WithRemedy(err))
	}
	defer b.finish(time.Second)
	return probePooling(ctx, a, b)
}

// probePatience limits each request of probePooling.
const probePatience = 2 * time.Second

// probePooling returns ErrPooled unless a is to one server process all the time: while b is in a transaction, a pooler
// that pools transactions gives a's next one another server process, or none.
func probePooling(ctx context.Context, a, b *connection) error {
	before, err := a.serverProcess(ctx)
	if err != nil {
		return err
	}
	if err := b.execProbe(ctx, "BEGIN"); err != nil {
		return err
	}
	other, err := b.serverProcess(ctx)
	if err != nil {
		return err
	}
	switch after, err := a.serverProcess(ctx); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		if _, failed := b.serverProcess(ctx); failed != nil {
			return err // the server is slow, or the network
		}
		return ErrPooled
	case err != nil:
		return err
	case after != before || other == before:
		return ErrPooled
	}
	return b.execProbe(ctx, "ROLLBACK")
}

// serverProcess returns the id of the server process to which the connection is at present.
func (c *connection) serverProcess(ctx context.Context) (pid int32, err error) {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	err = c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}

// execProbe executes a request of probePooling that returns nothing.
func (c *connection) execProbe(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	_, err := c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}
