//go:build linux

package integration

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/wait"
)

// saidLeads is the message of a process that has won concurrency.Election.
const saidLeads = "concurrency.Election: leads"

// runSilentRecipe campaigns with etcd's concurrency.Election, again after each lost session, until ctx ends. It
// claims to lead from the return of Campaign until Done of its session is closed, as programs with that package do.
func runSilentRecipe(ctx context.Context, cfg silentConfig, client *clientv3.Client, rec *history.Recorder) error {
	var token atomic.Int64 // 0 while it does not lead
	rec.Add(history.Node{Name: cfg.Name, Leads: func() (bool, int64) {
		t := token.Load()
		return t != 0, t
	}})
	for ctx.Err() == nil {
		if err := leadBySession(ctx, cfg, client, &token); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "campaign again:", err)
			wait.For(ctx, time.Second)
		}
	}
	return nil
}

// leadBySession campaigns with a new session, and leads until it is lost or ctx ends.
func leadBySession(ctx context.Context, cfg silentConfig, client *clientv3.Client, token *atomic.Int64) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(cfg.TTL))
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // hands over; a lost session has nothing to revoke
	attempt, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the session, which this function closes
		<-session.Done()
		cancel()
	}()
	e := concurrency.NewElection(session, cfg.Prefix)
	if err := e.Campaign(attempt, cfg.Name); err != nil {
		return err
	}
	token.Store(e.Rev())
	fmt.Fprintln(os.Stderr, saidLeads)
	<-attempt.Done()
	token.Store(0)
	return nil
}
