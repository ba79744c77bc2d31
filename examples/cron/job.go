package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/robfig/cron/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/once"
)

type job struct {
	name     string
	begun    string // the etcd key of the last time begun
	schedule cron.Schedule
	catchUp  time.Duration
	command  []string
}

// errLate reports that no copy served the time while -catch-up allowed it.
var errLate = errors.New("it is later than -catch-up allows")

// retryAfter is the pause before a request that etcd did not carry out is repeated.
const retryAfter = time.Second

// isTooLate reports whether it is too late to begin the run for due.
func (j job) isTooLate(due, now time.Time) bool { return now.Sub(due) > j.catchUp }

// firstDue returns the first due time that is not before from.
func (j job) firstDue(from time.Time) time.Time {
	return j.schedule.Next(from.UTC().Add(-time.Nanosecond))
}

// nextDue returns the next time to serve after due. It leaves out the times that are late by now, and reports
// whether there were any.
func (j job) nextDue(due, now time.Time) (next time.Time, skipped bool) {
	next = j.schedule.Next(due.UTC())
	if j.isTooLate(next, now) {
		return j.schedule.Next(now.UTC().Add(-j.catchUp)), true
	}
	return next, false
}

// serve stands for the job's election and leads one term after the other, until ctx ends.
func serve(ctx context.Context, c *cluster.Cluster, j job, log hclog.Logger) error {
	candidate, err := c.Elections().Stand(j.name)
	if err != nil {
		return err
	}
	err = candidate.LeadEach(ctx, func(ctx context.Context, term leaderelection.Term) error {
		return j.lead(ctx, c, term, log)
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lead serves the due times until ctx ends. It starts with the last time that a leader began: that run was
// either cut off, or is known to be done, which costs one read.
func (j job) lead(ctx context.Context, c *cluster.Cluster, term leaderelection.Term, log hclog.Logger) error {
	var from time.Time
	for {
		var err error
		if from, err = j.lastBegun(ctx, term, time.Now()); err == nil {
			break
		}
		if err := j.logAndPause(ctx, log, "where the last leader was is not known yet", err); err != nil {
			return err
		}
	}
	for due := j.firstDue(from); !due.IsZero(); {
		if err := sleepUntil(ctx, due); err != nil {
			return err
		}
		if err := j.serveTime(ctx, c, term, due, log); err != nil {
			return err
		}
		next, skipped := j.nextDue(due, time.Now())
		if skipped {
			log.Warn("times are left out: "+errLate.Error(), "after", due, "before", next)
		}
		due = next
	}
	return errors.New("the schedule has no time to come")
}

// serveTime serves one due time and logs the outcome. It returns an error only if ctx has ended.
func (j job) serveTime(ctx context.Context, c *cluster.Cluster, term leaderelection.Term, due time.Time,
	log hclog.Logger) error {
	name := fmt.Sprintf("cron/%s/%s", j.name, due.Format(time.RFC3339))
	log = log.With("effect", name, "due", due)
	for {
		var result once.Result
		var outcome error
		err := j.recordBegin(ctx, term, due)
		if err == nil {
			result, err = c.Once(ctx, name, func(ctx context.Context, token int64) ([]byte, error) {
				if j.isTooLate(due, time.Now()) {
					return nil, errLate
				}
				outcome = j.runCommand(ctx, due, token)
				if outcome == nil || errors.Is(outcome, errNotStarted) {
					return nil, outcome
				}
				return []byte(outcome.Error()), nil // it ran, and must not run again
			})
		}
		// Known outcomes are logged first, even if ctx has ended.
		switch {
		case errors.Is(err, once.ErrUnknown):
			log.Error("it is not known whether the command did its work. It is never run again for this time, and its mark "+
				"stays in etcd: look, and run the command by hand if it is missing", "error", err)
		case errors.Is(err, errLate), err != nil && ctx.Err() == nil && j.isTooLate(due, time.Now()):
			log.Error("the command was not run for this time, and will not be", "error", err)
		case err != nil:
			if err := j.logAndPause(ctx, log, "the command has not begun", err); err != nil {
				return err
			}
			continue
		case errors.Is(outcome, errEnded):
			log.Error("the command was ended, because this copy leads no more. It is not run again for this time: look how "+
				"far it came", "error", outcome, "next", j.schedule.Next(due))
		case outcome != nil:
			log.Error("the command failed. It is not run again for this time", "error", outcome, "next", j.schedule.Next(due))
		case result.Ran:
			log.Info("served", "token", result.Token)
		}
		return context.Cause(ctx)
	}
}

// logAndPause logs the error and waits before the next attempt. It returns an error only if ctx has ended.
func (j job) logAndPause(ctx context.Context, log hclog.Logger, what string, err error) error {
	if ctx.Err() == nil {
		log.Warn(what+"; it is tried again", "in", retryAfter, "error", err)
	}
	return sleepUntil(ctx, time.Now().Add(retryAfter))
}

func sleepUntil(ctx context.Context, due time.Time) error {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
