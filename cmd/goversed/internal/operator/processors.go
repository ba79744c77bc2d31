package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/eventlog"
)

// Processors manages the processors whose checkpoints are in one store. Its methods are safe for concurrent use.
type Processors struct {
	m processor.Manager
	// ask sends a request to the store and explains its errors. needs names the rights that it requires.
	ask func(ctx context.Context, needs string, request func(context.Context) error) error
	// explain adds a remedy to an error of the store.
	explain func(ctx context.Context, err error) error
	where   string
	close   func() error
	// write records requests in the event log of the store; nil if it has none.
	write func(ctx context.Context, requests []event.Event) error

	mu       sync.Mutex
	requests []event.Event // carried out, and not recorded yet
}

// recordTimeout limits the wait for requests to be recorded, once their outcome is known.
const recordTimeout = time.Second

// keepRequest keeps a request until Close records it.
func (p *Processors) keepRequest(e event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, e)
}

// recordRequests records the requests, if the store lets it. They were carried out in any case.
func (p *Processors) recordRequests() {
	p.mu.Lock()
	requests := p.requests
	p.requests = nil
	p.mu.Unlock()
	if len(requests) == 0 || p.write == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	_ = p.write(ctx, requests)
}

// Processors returns the processors with checkpoints in etcd. timeout limits each request.
func (o *Operator) Processors(timeout time.Duration) (*Processors, error) {
	m, err := processor.NewEtcd(processor.EtcdConfig{Client: o.client, Prefix: o.keys.Prefix(), RequestTimeout: timeout})
	p := &Processors{ask: o.etcd.Ask, where: "under " + o.keys.Prefix(), close: o.Close,
		explain: func(ctx context.Context, err error) error { return o.etcd.Explain(ctx, err, processorRights) },
		write: func(ctx context.Context, requests []event.Event) error {
			return eventlog.RecordCommands(ctx, o.client, o.keys, requests)
		}}
	p.m = processor.RecordRequests(m, p.keepRequest)
	return p, err
}

// ErrPostgres is matched by errors of the PostgreSQL that --postgres names.
var ErrPostgres = errors.New("PostgreSQL did not do what was asked")

// OpenPostgresProcessors returns the processors with checkpoints in a table of PostgreSQL. It sends no request. Table
// is "" for the default.
func OpenPostgresProcessors(ctx context.Context, url, table string) (*Processors, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("--postgres: %w", err) // pgx leaves the password out
	}
	cfg.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("--postgres: %w", err)
	}
	closePool := func() error { pool.Close(); return nil }
	m, err := postgres.New(postgres.Config{DB: pool, Table: table})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--table: %w", err), closePool())
	}
	p := &Processors{where: "in PostgreSQL", close: closePool,
		explain: func(_ context.Context, err error) error { return fmt.Errorf("%w: %w", ErrPostgres, err) },
		write: func(ctx context.Context, requests []event.Event) error {
			for _, e := range requests {
				// A program without nodes in PostgreSQL has no event log there.
				if _, err := pgnode.RecordEvent(ctx, pool, "", e); err != nil {
					return err
				}
			}
			return nil
		}}
	p.m = processor.RecordRequests(m, p.keepRequest)
	p.ask = func(ctx context.Context, _ string, request func(context.Context) error) error {
		return p.explained(ctx, request(ctx))
	}
	return p, nil
}

// explained explains an error, unless that is about the processor.
func (p *Processors) explained(ctx context.Context, err error) error {
	if err == nil || isAnswer(err) {
		return err
	}
	return p.explain(ctx, err)
}

// isAnswer reports whether an error says something about the processor, and not about its store.
func isAnswer(err error) bool {
	for _, target := range []error{processor.ErrUnknown, processor.ErrNotParked, processor.ErrNotAcknowledged,
		processor.ErrResumed, processor.ErrRetryFailed, processor.ErrBadPosition} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// Close records the requests in the event log, which may take a second, and ends the connection to the store. It
// reports no error if they cannot be recorded.
func (p *Processors) Close() error {
	p.recordRequests()
	return p.close()
}

// Where names the store, as in "no processor under /goverse".
func (p *Processors) Where() string { return p.where }

const processorRights = "READ and WRITE on the prefix of the checkpoints; see goversed rbac --for operator"

// List lists processors in the order of the store. It may take until ctx ends: timeout only limits one step.
func (p *Processors) List(ctx context.Context, timeout time.Duration, q ListQuery) (List[processor.Standing], error) {
	step := func(ctx context.Context, needs string, list func(context.Context) error) (after string, err error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return "", p.ask(ctx, needs, list)
	}
	return readList(ctx, step, listSource[processor.Standing]{needs: processorRights,
		name: func(s processor.Standing) string { return s.Name },
		read: func(ctx context.Context, after string, limit int) ([]processor.Standing, bool, error) {
			return p.m.List(ctx, processor.Query{After: after, Limit: limit})
		}}, q)
}

// ParkedList holds the parked events of a processor.
type ParkedList struct {
	Items []ParkedEvent `json:"items"` // oldest first
	More  bool          `json:"more"`  // there may be more than these processor.MaxParked
}

// ParkedEvent is a parked event, and whether its retry is requested.
type ParkedEvent struct {
	processor.Parked
	Retry bool `json:"retry"`
}

// Parked returns the parked events of a processor.
func (p *Processors) Parked(ctx context.Context, name string) (ParkedList, error) {
	all := ParkedList{Items: []ParkedEvent{}}
	err := p.withProcessor(ctx, name, func() error {
		parked, err := p.m.Parked(ctx, name)
		all.More = len(parked) == processor.MaxParked
		for _, e := range parked {
			all.Items = append(all.Items, ParkedEvent{e, e.Retry})
		}
		return err
	})
	return all, err
}

// withProcessor calls do if there is such a processor.
func (p *Processors) withProcessor(ctx context.Context, name string, do func() error) error {
	err := p.ask(ctx, processorRights, func(ctx context.Context) error {
		_, err := p.m.Look(ctx, name)
		return err
	})
	if err != nil {
		return err
	}
	return p.explained(ctx, do()) // it may wait for the leader, and not for the store
}

// Change makes a request about a processor that exists, and returns the processor as it is then.
func (p *Processors) Change(ctx context.Context, name string,
	request func(ctx context.Context, m processor.Manager) error) (now processor.Standing, err error) {
	err = p.withProcessor(ctx, name, func() (err error) {
		if err = request(ctx, p.m); err == nil {
			now, err = p.m.Look(ctx, name)
		}
		return err
	})
	return now, err
}
