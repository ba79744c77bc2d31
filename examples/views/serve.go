package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
)

const (
	stopTimeout = 10 * time.Second
	// idleTimeout limits how long a process that is paused in a transaction keeps its rows locked, and thereby
	// delays the next leader.
	idleTimeout = 5 * time.Second
)

// serve runs one copy until ctx ends. It keeps a view while it leads that view's election, and serves all views
// over HTTP.
func serve(ctx context.Context, cfg config, db *pgxpool.Pool, log hclog.Logger) error {
	if _, err := db.Exec(ctx, "select from events limit 0"); err != nil {
		return fmt.Errorf("cannot read the events: %w; if there is no such table, make it with views create", err)
	}
	l, err := net.Listen("tcp", cfg.http)
	if err != nil {
		return fmt.Errorf("%w; give another -http", err)
	}
	join := joinCluster
	if cfg.alone {
		join = openSession
	}
	others, err := join(ctx, cfg, l.Addr().String(), log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	err = runProcessors(ctx, cfg, others, db, l, log)
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(err, others.leave(stopping))
}

// runProcessors runs the processors and serves HTTP at l, which it closes.
func runProcessors(ctx context.Context, cfg config, c coordination, db *pgxpool.Pool, l net.Listener,
	log hclog.Logger) error {
	checkpoints, err := postgres.New(postgres.Config{DB: db, IdleTimeout: idleTimeout})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	// The handler decodes the body, not the source, so that an event which cannot be decoded is parked.
	source, err := postgres.NewSource(postgres.SourceConfig{DB: db, Table: "events", Channel: "events", Logger: log})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	var group processor.Group
	for _, v := range cfg.views {
		p, err := processor.New(processor.Config[[]byte]{
			Name:       v.processor(),
			Source:     source,
			Handler:    v.handle,
			Checkpoint: checkpoints,
			// Each view has a lock of its own. All locks share the process's session; one process may lead all of
			// them, or several processes some each.
			LeaderLock:    c.lock(v.processor()),
			PollInterval:  cfg.poll,
			CheckInterval: time.Second, // a rebuilt view begins to grow within this time
			Node:          c.name,
			Logger:        log,
		})
		if err != nil {
			return errors.Join(err, l.Close())
		}
		group = append(group, p)
	}
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { source.Listen(ctx) })

	pages := http.NewServeMux()
	pages.Handle("/", c.pages(group, checkpoints))
	pages.HandleFunc("GET /views/{view}", func(w http.ResponseWriter, r *http.Request) { showView(w, r, db) })
	pages.HandleFunc("GET /views/{view}/parked", func(w http.ResponseWriter, r *http.Request) {
		showParked(w, r, checkpoints)
	})
	server := httpapi.Serve(l, pages, log)
	log.Info("serving", "url", "http://"+server.Address(), "pid", os.Getpid())
	beside.Go(func() {
		select {
		case <-server.Done(): // the server failed
			cancel()
		case <-ctx.Done():
		}
	})
	err = group.Run(ctx)
	stopping, cancelStopping := context.WithTimeout(context.Background(), stopTimeout)
	defer cancelStopping()
	return errors.Join(err, server.Err(), server.Stop(stopping))
}

// showView answers with the rows of a view, whichever process keeps it.
func showView(w http.ResponseWriter, r *http.Request, db *pgxpool.Pool) {
	v, err := findView(r.PathValue("view"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	var rows json.RawMessage
	err = db.QueryRow(r.Context(), "select coalesce(json_agg(v), '[]') from ("+v.show+") v").Scan(&rows)
	writeJSON(w, rows, err)
}

// showParked answers with the events that a view's processor has parked.
func showParked(w http.ResponseWriter, r *http.Request, checkpoints *postgres.Checkpoint) {
	v, err := findView(r.PathValue("view"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	all, err := checkpoints.Parked(r.Context(), v.processor())
	writeJSON(w, append([]processor.Parked{}, all...), err)
}

func writeJSON(w http.ResponseWriter, body any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has gone
}
