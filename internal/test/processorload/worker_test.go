//go:build unix

package processorload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster"
	leaderelectionpg "github.com/goverse/goverse/cluster/leaderelection/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/wait"
	"github.com/goverse/goverse/node"
)

// workerEnv has the workerConfig of a process that is a worker.
const workerEnv = "GOVERSE_LOAD_WORKER"

// workerConfig configures a worker: a process that runs the processor until it is killed.
type workerConfig struct {
	ID, Name string
	// Dir has the files that the worker shares with the test. The size of the file events is the number of the last
	// event; a file healed-N means that event N succeeds; with etcd, the file effects has a line for each effect.
	Dir string
	// Postgres is the database with checkpoints, elections and effects, Etcd the endpoint in its place.
	Postgres, Etcd string
	Fault          string // that is planted: "" or one of those of plantFault
}

// table is the table of the checkpoints.
const table = "load"

// RunWorker runs a worker if this process is one. It reports whether it is.
func RunWorker() bool {
	text := os.Getenv(workerEnv)
	if text == "" {
		return false
	}
	var cfg workerConfig
	err := json.Unmarshal([]byte(text), &cfg)
	if err == nil {
		err = cfg.run(context.Background())
	}
	fmt.Fprintln(os.Stderr, "worker:", err)
	return true
}

func (cfg workerConfig) run(ctx context.Context) error {
	checkpoint, lock, apply, err := cfg.connect(ctx)
	if err != nil {
		return err
	}
	p, err := processor.New(processor.Config[int]{Name: cfg.Name, Node: cfg.ID, Source: &fileSource{dir: cfg.Dir},
		Checkpoint: plantFault(checkpoint, cfg.Fault), LeaderLock: lock, BatchSize: batchSize,
		CheckInterval: 5 * time.Millisecond, PollInterval: 5 * time.Millisecond,
		Backoff: processor.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond},
		Handler: func(ctx context.Context, e processor.Event[int]) error {
			if e.Value%poisonEvery == 0 && !cfg.healed(e.Value) {
				return processor.ErrPoison
			}
			wait.For(ctx, time.Millisecond) // so that there is always work in flight
			return apply(ctx, e.Value)
		}})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// connect returns the processor's parts, with PostgreSQL alone or with etcd.
func (cfg workerConfig) connect(ctx context.Context) (processor.Checkpoint, processor.LeaderLock,
	func(ctx context.Context, event int) error, error) {
	if cfg.Postgres != "" {
		return cfg.connectPostgres(ctx)
	}
	n, err := node.NewNode(node.Config{AdvertiseAddress: "localhost:0"})
	if err != nil {
		return nil, nil, nil, err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.Etcd, EtcdPrefix: "/" + cfg.Name}, n)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, nil, nil, err
	}
	effects, err := os.OpenFile(filepath.Join(cfg.Dir, "effects"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	return c.Checkpoints(), processor.Election(c.Elections(), cfg.Name), func(_ context.Context, event int) error {
		_, err := fmt.Fprintf(effects, "%d\n", event) // one write, which survives the process
		return err
	}, err
}

func (cfg workerConfig) connectPostgres(ctx context.Context) (processor.Checkpoint, processor.LeaderLock,
	func(ctx context.Context, event int) error, error) {
	pool, err := pgxpool.New(ctx, cfg.Postgres)
	if err != nil {
		return nil, nil, nil, err
	}
	session, err := pgsession.Open(ctx, pgsession.Config{URL: cfg.Postgres, Deadline: 600 * time.Millisecond})
	if err != nil {
		return nil, nil, nil, err
	}
	checkpoints, err := postgres.New(postgres.Config{DB: pool, Table: table})
	return checkpoints, processor.Election(leaderelectionpg.New(session), cfg.Name),
		func(ctx context.Context, event int) error {
			_, err := postgres.Tx(ctx).Exec(ctx, "insert into effect (name, event) values ($1, $2)", cfg.Name, event)
			return err
		}, err
}

func (cfg workerConfig) healed(event int) bool {
	_, err := os.Stat(healedFile(cfg.Dir, event))
	return err == nil
}

func healedFile(dir string, event int) string {
	return filepath.Join(dir, "healed-"+strconv.Itoa(event))
}

// fileSource has the numbers from 1 to the size of a file.
type fileSource struct{ dir string }

func (s *fileSource) Read(_ context.Context, after processor.Position, limit int) ([]processor.Event[int], error) {
	info, err := os.Stat(filepath.Join(s.dir, "events"))
	if err != nil {
		return nil, err
	}
	var all source
	all.last.Store(info.Size())
	return all.Read(context.Background(), after, limit)
}

// The faults that can be planted in a worker.
const (
	faultRetryTwice = "a retry stores the effect of its event twice"
	faultPauseEarly = "a pause is acknowledged before the batch in flight is stored"
)

// faulty is a checkpoint with a fault.
type faulty struct {
	processor.Checkpoint
	fault  string
	paused *atomic.Bool // a pause was acknowledged while a batch may have been in flight
}

func plantFault(c processor.Checkpoint, fault string) processor.Checkpoint {
	if fault == "" {
		return c
	}
	return faulty{c, fault, &atomic.Bool{}}
}

// Advance implements processor.Checkpoint.
func (f faulty) Advance(ctx context.Context, name string, at processor.Mark,
	work func(context.Context) (processor.Progress, error)) (processor.Mark, error) {
	return f.Checkpoint.Advance(ctx, name, at, func(ctx context.Context) (processor.Progress, error) {
		progress, err := work(ctx)
		if f.fault == faultRetryTwice && err == nil && len(progress.Handled) > 0 && progress.Position == at.Position {
			return work(ctx)
		}
		if f.paused.Swap(false) {
			wait.For(ctx, 60*time.Millisecond) // the batch takes long
		}
		return progress, err
	})
}

// Report implements processor.Checkpoint.
func (f faulty) Report(ctx context.Context, name string, r processor.Report) (processor.Mark, error) {
	m, err := f.Checkpoint.Report(ctx, name, r)
	if f.fault == faultPauseEarly && err == nil && m.Paused && r.Request < m.Request {
		r.Paused, r.Request = true, m.Request
		f.paused.Store(true)
		return f.Checkpoint.Report(ctx, name, r)
	}
	return m, err
}

// careless is a manager whose rewinds skip an event.
type careless struct{ processor.Manager }

func (c careless) Rewind(ctx context.Context, name string, to processor.Position) error {
	n, err := strconv.Atoi("0" + string(to))
	return errors.Join(err, c.Manager.Rewind(ctx, name, position(n+1)))
}
