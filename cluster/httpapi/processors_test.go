package httpapi

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

// processors returns one that is processing with errors, and one that never has.
func processors() []processor.Status {
	at := time.Date(2026, 1, 2, 3, 4, 5, 500_000_000, time.UTC)
	return []processor.Status{
		{Name: "views", Leading: true, Paused: true, Token: 7, Since: at, Position: "0/16B3748", Lag: 12,
			Handled: 1000, PerSecond: 33.5,
			HandledAt: at,
			Batches:   10, Retries: 4, Parked: 2, Failures: 3, Attempts: 1, LastError: "no such customer", LastErrorAt: at},
		{Name: "outbox", Lag: -1},
	}
}

func TestProcessors(t *testing.T) {
	t.Parallel()
	w := call(New(follower(), Options{Processors: processors}), http.MethodGet, "/cluster/processors")
	require.Equal(t, http.StatusOK, w.Code)
	var body map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	const at = "2026-01-02T03:04:05.5Z"
	require.Equal(t, map[string]any{"node_id": followerAt, "processors": []any{
		map[string]any{"name": "views", "leading": true, "paused": true, "token": 7.0,
			"since": at, "position": "0/16B3748", "lag": 12.0,
			"handled":    1000.0,
			"per_second": 33.5, "handled_at": at, "batches": 10.0, "retries": 4.0, "parked": 2.0, "failures": 3.0,
			"attempts":   1.0,
			"last_error": "no such customer", "last_error_at": at},
		map[string]any{"name": "outbox", "leading": false, "paused": false, "token": 0.0,
			"position": "", "handled": 0.0, "per_second": 0.0,
			"batches": 0.0,
			"retries": 0.0, "parked": 0.0, "failures": 0.0, "attempts": 0.0},
	}}, body)

	code, none := get(t, follower(), "/cluster/processors")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, []any{}, none["processors"])
}

func TestProcessorMetrics(t *testing.T) {
	t.Parallel()
	text := scrape(t, New(follower(), Options{Processors: processors}))
	for _, line := range []string{
		`leading{processor="views"} 1`, `leading{processor="outbox"} 0`, `token{processor="views"} 7`,
		`lag_events{processor="views"} 12`,
		`attempts{processor="views"} 1`, `events_total{processor="views"} 1000`, `batches_total{processor="views"} 10`,
		`retries_total{processor="views"} 4`, `parked_total{processor="views"} 2`, `failures_total{processor="views"} 3`,
		`handled_timestamp_seconds{processor="views"} 1.7673230455e+09`, `events_total{processor="outbox"} 0`,
	} {
		require.Contains(t, text, "goverse_processor_"+line+"\n")
	}
	require.NotContains(t, text, `lag_events{processor="outbox"}`, "it is not known")
	require.NotContains(t, text, `handled_timestamp_seconds{processor="outbox"}`)
	require.NotContains(t, scrape(t, New(follower(), Options{})), "goverse_processor_")
}
