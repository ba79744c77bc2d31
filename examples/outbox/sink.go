package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tokenHeader names the header with the fencing token of the publisher.
const tokenHeader = "Fencing-Token"

const maxBody = 1 << 20

//go:embed sink.sql
var sinkTables string

// sink receives events over HTTP, each once. It stands for the system at the other end, which has to do its
// part, because a sender alone cannot deliver exactly once:
//
//   - A repeated PUT /events/XID/ID changes nothing and succeeds.
//   - A Fencing-Token smaller than one seen before gets 409: its publisher no longer leads.
//
// Both are decided in the transaction that stores the event.
type sink struct {
	db *pgxpool.Pool
}

// serveSink runs a sink at the address until ctx ends.
func serveSink(ctx context.Context, db *pgxpool.Pool, address string, log hclog.Logger) error {
	if _, err := db.Exec(ctx, sinkTables); err != nil {
		return fmt.Errorf("create the sink's tables: %w", err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("%w; give another -listen", err)
	}
	log.Info("receiving", "url", "http://"+l.Addr().String())
	server := &http.Server{Handler: sink{db}.routes(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancel(ctx)
	var stopper sync.WaitGroup
	stopper.Go(func() {
		<-ctx.Done()
		stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		_ = server.Shutdown(stopping) // publishers repeat requests that are cut off
	})
	err = server.Serve(l)
	cancel()
	stopper.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s sink) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /events/{xid}/{id}", s.put)
	mux.HandleFunc("GET /{$}", s.status)
	return mux
}

func (s sink) put(w http.ResponseWriter, r *http.Request) {
	token, err := strconv.ParseInt(r.Header.Get(tokenHeader), 10, 64)
	if err != nil || token <= 0 {
		http.Error(w, "the request needs a "+tokenHeader+", a number above 0", http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, fmt.Sprintf("the event has more than %d bytes", maxBody), http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, "the request was cut off; send it again", http.StatusServiceUnavailable)
		return
	case !json.Valid(body):
		http.Error(w, "the event is no JSON", http.StatusUnprocessableEntity)
		return
	}
	became, err := s.store(r.Context(), r.PathValue("xid")+"/"+r.PathValue("id"), token, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	switch became {
	case "refused":
		http.Error(w, "somebody with a larger "+tokenHeader+" publishes now", http.StatusConflict)
	case "received":
		w.WriteHeader(http.StatusCreated)
	}
}

// store stores the event and returns "received", "repeated" or "refused". It first locks the only row of
// received_from, so events are stored one after the other, and none with a smaller token after one with a
// larger.
func (s sink) store(ctx context.Context, event string, token int64, body []byte) (became string, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var largest int64
		if err := tx.QueryRow(ctx, "select token from received_from for update").Scan(&largest); err != nil {
			return err
		}
		became = "refused"
		if token >= largest {
			tag, err := tx.Exec(ctx, "insert into received (event, token, body) values ($1, $2, $3) on conflict (event) do "+
				"nothing", event, token, body)
			if err != nil {
				return err
			}
			became = "repeated"
			if tag.RowsAffected() == 1 {
				became = "received"
			}
		}
		_, err := tx.Exec(ctx, `update received_from set token = greatest(token, $1),
repeated = repeated + ($2 = 'repeated')::int, refused = refused + ($2 = 'refused')::int`, token, became)
		return err
	})
	return became, err
}

// status describes the events that the sink has received so far.
type status struct {
	Received int64  `json:"received"`
	Repeated int64  `json:"repeated"` // received again
	Refused  int64  `json:"refused"`  // sent by a publisher that no longer led
	Token    int64  `json:"token"`    // the largest seen
	Last     string `json:"last"`     // the event stored last
}

func (s sink) status(w http.ResponseWriter, r *http.Request) {
	var now status
	err := s.db.QueryRow(r.Context(), `select (select count(*) from received), repeated, refused, token,
coalesce((select event from received order by number desc limit 1), '') from received_from`).Scan(
		&now.Received, &now.Repeated, &now.Refused, &now.Token, &now.Last)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(now) // fails only if the client has gone
}
