package pgsession

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/internal/pg/claims"
)

// Errors of Open; test for them with errors.Is.
var (
	// ErrBadConfig is matched by every error of [Config.Validate].
	ErrBadConfig = claims.ErrBadConfig
	// ErrPooled is returned if a pooler that pools transactions stands between the process and PostgreSQL.
	ErrPooled = claims.ErrPooled
	// ErrStandby is returned if the server takes no writes.
	ErrStandby = claims.ErrStandby
)

// DefaultDeadline and DefaultSchema are the Deadline and the Schema of a Config that has none. MinDeadline and
// MaxDeadline limit the Deadline.
const (
	MinDeadline     = claims.MinDeadline
	MaxDeadline     = claims.MaxDeadline
	DefaultDeadline = claims.DefaultDeadline
	DefaultSchema   = claims.DefaultSchema
)

// Config configures a [Session]. URL or Connect is required.
type Config struct {
	// URL is the connection string of the database, in one of the forms of pgx.ParseConfig. It is parsed again for each
	// connection, so that files that it names may change. With several hosts, the one that takes writes is used. Settings
	// of a pool, such as pool_max_conns, have no effect, so that a program's pool can have the same URL.
	URL string
	// Connect returns the configuration of the next connection, in place of URL: for passwords that expire, for example.
	Connect func(ctx context.Context) (*pgx.ConnConfig, error)
	// Schema has the tables; all processes that exclude each other use the same. Default goverse.
	Schema string
	// Deadline is the time after which other processes take over from one that has vanished, and for which a process that
	// gets no answer may go on. A server that stands still for longer ends every session. From 200 ms to a minute;
	// default 3 s. Processes may have different ones.
	Deadline time.Duration
	// Owner names this process to people, in lists of holders: at most 512 bytes. Default: the host's name and the number
	// of the process.
	Owner string
	// Logger gets one line per event that concerns an operator. Default: none.
	Logger hclog.Logger
	// OnLost, if set, is called when the session is lost, after the contexts of what it held have ended. Until OnLost
	// returns, other processes take over only after the deadline: so a program can first end what it started under a
	// lock, such as another process. ctx ends at that deadline; OnLost must return soon after it. No other session is
	// opened before. Close does not call OnLost, but waits for a call that runs.
	OnLost func(ctx context.Context)
}

func (c Config) internal() claims.Config {
	host, _ := os.Hostname()
	in := claims.Config{Connect: c.Connect, Schema: c.Schema, Deadline: c.Deadline,
		Owner: cmp.Or(c.Owner, fmt.Sprintf("%s/%d", cmp.Or(host, "unknown"), os.Getpid())), Logger: c.Logger,
		OnLost: c.OnLost}
	if in.Connect == nil && c.URL != "" {
		in.Connect = func(context.Context) (*pgx.ConnConfig, error) { return parseURL(c.URL) }
	}
	return in
}

func parseURL(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgxpool.ParseConfig(url) // takes the settings of a pool out, which a server would refuse
	if err != nil {
		return nil, err
	}
	return cfg.ConnConfig, nil
}

// Validate returns an error that matches [ErrBadConfig] if the configuration is invalid. It sends no request.
func (c Config) Validate() error {
	if err := c.internal().Validate(); err != nil {
		return err
	}
	if c.URL == "" {
		return nil
	}
	if _, err := parseURL(c.URL); err != nil {
		return fmt.Errorf("%w: URL: %w", ErrBadConfig, err)
	}
	return nil
}

// SchemaRelease is the number of the tables and functions of this release of Goverse, as in the column release of the
// table setting.
const SchemaRelease = claims.SchemaRelease

// Probe connects twice, as [Open] would, and writes nothing. Its error matches ErrBadConfig, ErrPooled or ErrStandby,
// or is PostgreSQL's. Probe blocks until PostgreSQL has answered, or ctx ends.
func Probe(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	return claims.Probe(ctx, cfg.internal())
}

// Session is this process's session in PostgreSQL. If it is lost, another one is opened by itself, and what was held
// under the lost one is lost. All methods are safe for concurrent use.
type Session struct{ k *claims.Keeper }

// Open opens a session. It makes its tables unless they are there. If its user may not create a schema, it returns
// PostgreSQL's error; an administrator then runs [SchemaSQL] once. Open blocks until the session is open, or ctx ends.
// Close the session when nothing is held any more.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	k, err := claims.Open(ctx, cfg.internal())
	if err != nil {
		return nil, err
	}
	return &Session{k}, nil
}

// End ends a session of another process by its number, as Close of that process would: other processes need not wait
// for its deadline. The process must have ended, and with it all that it did under its locks. End opens one connection
// with the settings of cfg. It blocks until PostgreSQL has confirmed that the session is gone, or ctx ends. It is no
// error if there is no such session.
func End(ctx context.Context, cfg Config, id int64) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	return claims.EndSession(ctx, cfg.internal(), id)
}

// SchemaSQL returns the statements that make the tables and functions in a schema, "" for the default one.
func SchemaSQL(schema string) string { return claims.SchemaSQL(cmp.Or(schema, claims.DefaultSchema)) }

// Valid reports whether what is held in the session may be relied on at this instant. It does not use the network.
func (s *Session) Valid() bool { return s.k.Valid() }

// Close ends everything that is held in the session, with lock.ErrStopped, and gives it up, so that other processes
// need not wait for the deadline. It blocks until PostgreSQL has confirmed that, or ctx ends; its error then says so.
// Closing again is harmless.
func (s *Session) Close(ctx context.Context) error { return s.k.Close(ctx) }

// Keeper returns the inside of the session, for packages of this module.
func (s *Session) Keeper() *claims.Keeper { return s.k }
