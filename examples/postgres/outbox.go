package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/leaderelection"
	electionpg "github.com/goverse/goverse/cluster/leaderelection/postgres"
	"github.com/goverse/goverse/cluster/leaderonly"
	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
)

// publishOutbox publishes the rows of the outbox, each once and in order, while this copy holds the lock.
func publishOutbox(ctx context.Context, db *pgxpool.Pool, session *pgsession.Session, log hclog.Logger) error {
	checkpoints, err := postgres.New(postgres.Config{DB: db})
	if err != nil {
		return err
	}
	if err := checkpoints.CreateTables(ctx); err != nil {
		return err
	}
	rows, err := postgres.NewSource(postgres.SourceConfig{DB: db, Table: "outbox", Channel: "outbox", Logger: log})
	if err != nil {
		return err
	}
	publisher, err := processor.New(processor.Config[[]byte]{Name: "outbox", Source: rows, Handler: publish(log),
		Checkpoint: checkpoints, LeaderLock: processor.Lock(lockpg.New(session), "outbox"), Logger: log})
	if err != nil {
		return err
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	beside.Go(func() { rows.Listen(ctx) }) // new rows are published at once
	return publisher.Run(ctx)
}

// publish returns the handler: here it logs the row. The token tells the system that gets it from a former leader.
func publish(log hclog.Logger) func(context.Context, processor.Event[[]byte]) error {
	return func(ctx context.Context, e processor.Event[[]byte]) error {
		log.Info("published", "position", e.Position, "token", processor.TokenFrom(ctx), "body", string(e.Value))
		return nil
	}
}

// routes returns the routes of a copy. Only the leader of the election takes orders; other copies forward them to it.
func routes(db *pgxpool.Pool, service *electionpg.Candidate, url string) http.Handler {
	leads := leaderonly.NamedElection(service, url, func(url string) string { return url })
	mux := http.NewServeMux()
	mux.Handle("POST /orders", leaderonly.Handler(leads, takeOrder(db), leaderonly.Options{Elsewhere: leaderonly.Forward}))
	mux.HandleFunc("GET /leader", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(service.Leader()) // fails only if the client has gone
	})
	return mux
}

// takeOrder writes an order in a transaction that commits only while this copy leads.
func takeOrder(db *pgxpool.Pool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		term, _ := leaderonly.TermFrom(r.Context())
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = writeOrder(r.Context(), db, term, body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

func writeOrder(ctx context.Context, db *pgxpool.Pool, term leaderelection.Term, body []byte) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // has no effect after a commit
	if err := electionpg.Fence(ctx, tx, term); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "insert into outbox (body) values ($1)", body); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// reportPeriodically runs a job at intervals, in the copy that leads.
func reportPeriodically(ctx context.Context, service *electionpg.Candidate, every time.Duration, log hclog.Logger) {
	for tick := time.NewTicker(every); ; {
		select {
		case <-tick.C:
			if service.IsLeader() {
				log.Info("report")
			}
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}
