package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/httpapi"
	electionpg "github.com/goverse/goverse/cluster/leaderelection/postgres"
	"github.com/goverse/goverse/cluster/leaderonly"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/pgsession"
)

//go:embed schema.sql
var tables string

// idleTimeout limits how long a copy that stands still in a transaction delays the next leader.
const idleTimeout = "5s"

// lingerTime is how long a copy that stops refuses writes that were forwarded to it as the leader.
const lingerTime = 500 * time.Millisecond

// forgetEvery is the interval at which the leader deletes answers that need not be remembered any more.
const forgetEvery = time.Minute

// openSession lets the copies agree by the database, which also keeps the documents.
func openSession(ctx context.Context, cfg config, log hclog.Logger) (_ coordination, err error) {
	settings, err := pgxpool.ParseConfig(cfg.postgres)
	if err != nil {
		return coordination{}, err
	}
	settings.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = idleTimeout
	db, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return coordination{}, err
	}
	defer func() {
		if err != nil {
			db.Close()
		}
	}()
	session, err := pgsession.Open(ctx, pgsession.Config{URL: cfg.postgres, Owner: cfg.advertise, Logger: log})
	if err != nil {
		return coordination{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, session.Close(context.WithoutCancel(ctx)))
		}
	}()
	if _, err := db.Exec(ctx, tables); err != nil {
		return coordination{}, err
	}
	n, err := pgnode.Join(ctx, session, pgnode.Config{HTTPAddress: cfg.advertise, Election: "controller", Logger: log})
	if err != nil {
		return coordination{}, err
	}
	s := &postgresStore{db: db}
	forgetting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { s.forgetPeriodically(forgetting, n.IsLeader, cfg.remember, log) })
	return coordination{
		name:  n.ID(),
		store: s,
		leads: leaderonly.NamedElection(n.Election(), n.ID(), n.URLOf),
		wait:  2*time.Second + pgsession.DefaultDeadline, // the next one after a crash leads after the deadline
		pages: httpapi.New(n, httpapi.Options{}),
		start: func(context.Context) error { return nil },
		err:   func() error { return nil },
		handOver: func(ctx context.Context) error {
			err := n.Election().Withdraw(ctx)
			select { // writes that were forwarded before the others knew of it are still refused, and go elsewhere
			case <-time.After(lingerTime):
			case <-ctx.Done():
			}
			return err
		},
		close: func(ctx context.Context) error {
			stop()
			running.Wait()
			db.Close() // waits for requests that run, no longer than storeTimeout
			return errors.Join(n.Leave(ctx), session.Close(ctx))
		},
	}, nil
}

// postgresStore keeps documents and answers in two tables, see schema.sql.
type postgresStore struct{ db *pgxpool.Pool }

// key returns the key of a row. A name or an id is escaped, because it may hold bytes that text may not.
func key(s string) string { return url.PathEscape(s) }

func (s *postgresStore) get(ctx context.Context, name string) (document []byte, err error) {
	err = s.db.QueryRow(ctx, "select document from controller_configs where name = $1", key(name)).Scan(&document)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return document, err
}

// errNoEffect rolls a transaction back that is to write nothing.
var errNoEffect = errors.New("nothing is to be written")

func (s *postgresStore) commit(ctx context.Context, a answer, value []byte) (
	before *answer, conflict bool, err error) {
	term, _ := leaderonly.TermFrom(ctx)
	record, err := json.Marshal(a)
	if err != nil {
		return nil, false, err
	}
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) (err error) {
		if err := electionpg.Fence(ctx, tx, term); err != nil { // from here on no other copy leads
			return err
		}
		if before, conflict, err = write(ctx, tx, a, string(record), string(value)); before != nil || conflict {
			return errNoEffect
		}
		return err
	})
	if errors.Is(err, errNoEffect) {
		return before, conflict, nil
	}
	return nil, false, err
}

// write writes the answer and the document, unless there is an answer under that id, or the document to be created.
func write(ctx context.Context, tx pgx.Tx, a answer, record, value string) (before *answer, conflict bool, err error) {
	// While another transaction has written the same id, this one waits for its end.
	done, err := tx.Exec(ctx, "insert into controller_writes (id, answer) values ($1, $2) on conflict do nothing",
		key(a.ID), record)
	if err != nil {
		return nil, false, err
	}
	if done.RowsAffected() == 0 {
		var stored []byte
		err := tx.QueryRow(ctx, "select answer from controller_writes where id = $1", key(a.ID)).Scan(&stored)
		if err == nil {
			err = json.Unmarshal(stored, &before)
		}
		return before, false, err
	}
	switch a.Done {
	case "created":
		done, err = tx.Exec(ctx, "insert into controller_configs (name, document) values ($1, $2) on conflict do nothing",
			key(a.Name), value)
		return nil, err == nil && done.RowsAffected() == 0, err
	case "deleted":
		_, err = tx.Exec(ctx, "delete from controller_configs where name = $1", key(a.Name))
	default:
		_, err = tx.Exec(ctx, "insert into controller_configs (name, document) values ($1, $2) "+
			"on conflict (name) do update set document = excluded.document", key(a.Name), value)
	}
	return nil, false, err
}

// forgetPeriodically deletes old answers while this copy leads, until ctx ends.
func (s *postgresStore) forgetPeriodically(ctx context.Context, leads func() bool, remember time.Duration,
	log hclog.Logger) {
	again := time.NewTicker(forgetEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		if !leads() {
			continue
		}
		_, err := s.db.Exec(ctx, "delete from controller_writes where written < now() - $1::interval", remember)
		if err != nil && ctx.Err() == nil {
			log.Warn("could not delete old answers, retrying", "error", err)
		}
	}
}
