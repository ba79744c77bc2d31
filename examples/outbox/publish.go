package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/processor"
)

const (
	stopTimeout = 10 * time.Second
	sinkTimeout = 10 * time.Second
	cleanEvery  = time.Minute
)

// runPublisher runs one publisher until ctx ends.
func runPublisher(ctx context.Context, cfg config, db *pgxpool.Pool, log hclog.Logger) error {
	if _, err := db.Exec(ctx, "select from outbox limit 0"); err != nil {
		return fmt.Errorf("cannot read the outbox: %w; if there is none, make it with outbox create", err)
	}
	join := joinCluster
	if cfg.alone {
		join = openSession
	}
	others, err := join(ctx, cfg, db, log)
	if err != nil {
		return err
	}
	log.Info("ready to publish", "pid", os.Getpid())
	err = runProcessor(ctx, cfg, others, db, log)
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(err, others.leave(stopping))
}

// runProcessor publishes events while this copy leads, until ctx ends.
func runProcessor(ctx context.Context, cfg config, c coordination, db *pgxpool.Pool, log hclog.Logger) error {
	source, err := newOutbox(db, log)
	if err != nil {
		return err
	}
	to := sinkClient{url: cfg.sink, client: &http.Client{Timeout: sinkTimeout}}
	defer to.client.CloseIdleConnections()
	p, err := processor.New(processor.Config[[]byte]{
		Name:         "outbox",
		Source:       source,
		Handler:      to.put,
		Checkpoint:   c.checkpoint,
		LeaderLock:   c.lock,
		PollInterval: cfg.poll,
		Backoff:      processor.Backoff{Max: 5 * time.Second}, // short, to continue soon after the sink is back
		OnPark:       source.park,
		Logger:       log,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { source.Listen(ctx) })
	beside.Go(func() { cleanPeriodically(ctx, source, p, cfg.keep, log) })
	return p.Run(ctx)
}

// cleanPeriodically deletes rows that were published long ago, once in every cleanEvery, until ctx ends.
func cleanPeriodically(ctx context.Context, o *outbox, p *processor.Processor[[]byte], keep time.Duration,
	log hclog.Logger) {
	again := time.NewTicker(cleanEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		s := p.Status()
		if !s.Leading {
			continue
		}
		if n, err := o.clean(ctx, s.Position, keep); err != nil && ctx.Err() == nil {
			log.Warn("could not delete what was published, trying again in a while", "error", err)
		} else if n > 0 {
			log.Info("deleted what was published", "rows", n, "older_than", keep)
		}
	}
}

// sinkClient sends events to the sink. An event is sent again if its answer was lost, or if the former leader
// had sent it but not yet noted it in the checkpoint; the sink recognises it by its URL. A delayed request of a
// former leader has a smaller token than the sink has seen, so the sink refuses it.
type sinkClient struct {
	url    string
	client *http.Client
}

func (s sinkClient) put(ctx context.Context, e processor.Event[[]byte]) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.url+"/events/"+string(e.Position),
		bytes.NewReader(e.Value))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(tokenHeader, strconv.FormatInt(processor.TokenFrom(ctx), 10))
	answer, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", processor.ErrUnavailable, err)
	}
	defer func() { _ = answer.Body.Close() }()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // for the message, and to reuse the connection
	return answerError(answer.StatusCode, string(bytes.TrimSpace(said)))
}

// answerError returns the error for the sink's answer. Only an answer that blames the event itself may park the
// event.
func answerError(code int, said string) error {
	switch {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge, code == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: the sink will not have it (%d): %s", processor.ErrPoison, code, said)
	}
	return fmt.Errorf("%w: the sink says %d: %s", processor.ErrUnavailable, code, said)
}
