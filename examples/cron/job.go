package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/robfig/cron/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/elections"
	"github.com/goverse/goverse/cluster/once"
)

type job struct {
	name     string
	schedule cron.Schedule
	catchUp  time.Duration
	command  []string
}

// serve leads the job's election, one term after the other, until ctx ends.
func serve(ctx context.Context, c *cluster.Cluster, j job, log hclog.Logger) error {
	election, err := c.Election(j.name)
	if err != nil {
		return err
	}
	for {
		err := election.Lead(ctx, func(ctx context.Context, _ *elections.Term) error { return j.lead(ctx, c, log) })
		switch {
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, elections.ErrTermOver):
			return err
		}
	}
}

// lead serves what is due until ctx ends. Times that another leader served are known as such,
// and cost a read.
func (j job) lead(ctx context.Context, c *cluster.Cluster, log hclog.Logger) error {
	for due := j.schedule.Next(time.Now().Add(-j.catchUp)); !due.IsZero(); due = j.schedule.Next(due) {
		if err := until(ctx, due); err != nil {
			return err
		}
		name := fmt.Sprintf("cron/%s/%s", j.name, due.UTC().Format(time.RFC3339))
		result, err := c.Once(ctx, name, func(ctx context.Context, token int64) ([]byte, error) {
			return nil, j.run(ctx, due, token)
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, once.ErrUnknown):
			log.Error("nobody knows whether the command did its work: look, and run it by hand if it did not", "effect", name, "due", due, "error", err)
		case err != nil:
			log.Error("the command failed; the next leader runs it again, if it may look so far back", "due", due, "error", err)
		case result.Ran:
			log.Info("served", "due", due, "token", result.Token)
		}
	}
	return errors.New("the schedule has no time to come")
}

// run is one run of the command. It gets SIGTERM when the term is over.
func (j job) run(ctx context.Context, due time.Time, token int64) error {
	cmd := exec.CommandContext(ctx, j.command[0], j.command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Second
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CRON_DUE="+due.UTC().Format(time.RFC3339), fmt.Sprintf("CRON_TOKEN=%d", token))
	return cmd.Run()
}

func until(ctx context.Context, due time.Time) error {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
