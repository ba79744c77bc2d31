package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/cluster/processor"
)

// automations returns one that executes items with errors, and one that never has.
func automations() []automation.Status {
	at := time.Date(2026, 1, 2, 3, 4, 5, 500_000_000, time.UTC)
	return []automation.Status{
		{Name: "mails", Active: true, LeaderOnly: true, Token: 7, Since: at, Workers: 4, Running: 2,
			Counts: automation.Counts{Due: 12, Waiting: 3, Parked: 1}, Done: 1000, PerSecond: 33.5, DoneAt: at, Retries: 4,
			GivenUp: 2, Failures: 3, LastItem: "4711", LastError: "no such customer", LastErrorAt: at},
		{Name: "bills", Workers: 1, Counts: automation.Counts{Due: -1, Waiting: -1, Parked: -1}},
	}
}

func TestAutomations(t *testing.T) {
	t.Parallel()
	w := call(New(follower(), Options{Automations: automations}), http.MethodGet, "/cluster/automations")
	require.Equal(t, http.StatusOK, w.Code)
	var body map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	const at = "2026-01-02T03:04:05.5Z"
	require.Equal(t, map[string]any{"node_id": followerAt, "automations": []any{
		map[string]any{"name": "mails", "active": true, "leader_only": true, "token": 7.0, "since": at, "workers": 4.0,
			"running": 2.0, "due": 12.0, "waiting": 3.0, "parked": 1.0, "done": 1000.0, "per_second": 33.5, "done_at": at,
			"retries": 4.0, "given_up": 2.0, "failures": 3.0, "last_item": "4711", "last_error": "no such customer",
			"last_error_at": at},
		map[string]any{"name": "bills", "active": false, "leader_only": false, "token": 0.0, "workers": 1.0, "running": 0.0,
			"done": 0.0, "per_second": 0.0, "retries": 0.0, "given_up": 0.0, "failures": 0.0},
	}}, body)

	code, none := get(t, follower(), "/cluster/automations")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, []any{}, none["automations"])
}

func TestAutomationMetrics(t *testing.T) {
	t.Parallel()
	text := scrape(t, New(follower(), Options{Automations: automations}))
	for _, line := range []string{
		`active{automation="mails"} 1`, `active{automation="bills"} 0`, `token{automation="mails"} 7`,
		`due_items{automation="mails"} 12`, `waiting_items{automation="mails"} 3`, `parked_items{automation="mails"} 1`,
		`running_items{automation="mails"} 2`, `done_total{automation="mails"} 1000`,
		`retries_total{automation="mails"} 4`, `given_up_total{automation="mails"} 2`,
		`failures_total{automation="mails"} 3`, `done_timestamp_seconds{automation="mails"} 1.7673230455e+09`,
		`done_total{automation="bills"} 0`,
	} {
		require.Contains(t, text, "goverse_automation_"+line+"\n")
	}
	require.NotContains(t, text, `due_items{automation="bills"}`, "it is not known")
	require.NotContains(t, text, `done_timestamp_seconds{automation="bills"}`)
	require.NotContains(t, scrape(t, New(follower(), Options{})), "goverse_automation_")
}

var errNoPaper = errors.New("no paper")

// The page shows an automation that runs: an item done, and one parked.
func TestRunningAutomation(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	done := map[string]bool{}
	items := []automation.Item[int]{{Key: "a"}, {Key: "b"}}
	source, err := automation.NewList(automation.ListConfig[int]{
		List: func(_ context.Context, after string, _ int) (all []automation.Item[int], err error) {
			for _, i := range items {
				if i.Key > after {
					all = append(all, i)
				}
			}
			return all, nil
		},
		Due: func(_ context.Context, i automation.Item[int]) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			return !done[i.Key], nil
		}})
	require.NoError(t, err)
	prints, err := automation.New(automation.Config[int]{Name: "prints", Source: source, MaxAttempts: 1,
		PollInterval: 10 * time.Millisecond, CountInterval: 10 * time.Millisecond,
		LeaderLock: processor.LockFunc(func(ctx context.Context, fn func(context.Context, int64) error) error {
			return fn(ctx, 5)
		}),
		Execute: func(_ context.Context, i automation.Item[int]) error {
			if i.Key == "b" {
				return errNoPaper
			}
			mu.Lock()
			defer mu.Unlock()
			done[i.Key] = true
			return nil
		}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = prints.Run(ctx) })
	defer running.Wait()
	defer cancel()
	h := New(follower(), Options{Automations: func() []automation.Status { return []automation.Status{prints.Status()} }})
	require.Eventually(t, func() bool {
		v := readPage[Automations](t, h, "/cluster/automations").Automations[0]
		return v.Active && v.LeaderOnly && v.Token == 5 && v.Done == 1 && v.GivenUp == 1 && v.LastItem == "b" &&
			v.LastError == errNoPaper.Error() && v.Parked != nil && *v.Parked == 1
	}, time.Minute, time.Millisecond)
}
