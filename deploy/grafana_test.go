package deploy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

const dashboardFile = "grafana/goverse.json"

// grafana decodes a dashboard with Grafana's own types, including those of its panels. Unknown fields are
// errors.
//
//lint:ignore SA1019 the classic form, which every Grafana imports; the newer one takes Grafana 12
func grafana(text string) (board dashboard.Dashboard, err error) {
	plugins.RegisterDefaultPlugins()
	// UnmarshalJSONStrict finds errors but leaves panels out.
	//lint:ignore SA1019 as above
	var strict dashboard.Dashboard
	if err := strict.UnmarshalJSONStrict([]byte(text)); err != nil && err.Error() != "" { // an empty list is no error
		return board, err
	}
	if err := json.Unmarshal([]byte(text), &board); err != nil {
		return board, err
	}
	return board, board.Validate()
}

// substituted returns an expression with Grafana's variables replaced.
func substituted(expr string) string {
	return regexp.MustCompile(`\$\w+`).ReplaceAllStringFunc(expr, func(name string) string {
		if name == "$__rate_interval" {
			return "1m"
		}
		return ".*"
	})
}

// Prometheus can evaluate every expression of the dashboard. The expressions read existing metrics of the
// selected cluster, and the important metrics are included.
func TestGrafana(t *testing.T) {
	board, err := grafana(read(t, dashboardFile))
	require.NoError(t, err)
	known, used := documented(t), map[string]bool{}
	check := func(expr string) {
		t.Helper()
		require.Contains(t, expr, `job=~"$job"`)
		require.NoError(t, undocumented(substituted(expr), known))
		series, err := selectors(substituted(expr))
		require.NoError(t, err)
		for _, s := range series {
			used[s.Name] = true
		}
	}
	panels, at, ids := 0, map[[2]uint32]string{}, map[uint32]bool{}
	for _, p := range board.Panels {
		if p.Panel == nil {
			continue
		}
		panels++
		require.False(t, ids[*p.Panel.Id], "two panels have one id")
		ids[*p.Panel.Id] = true
		for x := range p.Panel.GridPos.W {
			for y := range p.Panel.GridPos.H {
				place := [2]uint32{p.Panel.GridPos.X + x, p.Panel.GridPos.Y + y}
				require.Empty(t, at[place], "%s covers another panel", *p.Panel.Title)
				require.Less(t, place[0], uint32(24), *p.Panel.Title)
				at[place] = *p.Panel.Title
			}
		}
		require.NotEmpty(t, p.Panel.Targets, *p.Panel.Title)
		for _, target := range p.Panel.Targets {
			check(target.(*prometheus.Dataquery).Expr)
		}
	}
	require.Greater(t, panels, 30)
	for _, a := range board.Annotations.List {
		check(*a.Expr)
	}
	for _, v := range board.Templating.List {
		if v.Type == dashboard.VariableTypeQuery {
			require.NotNil(t, v.Definition)
			metric := strings.TrimPrefix((*v.Definition)[:strings.LastIndex(*v.Definition, ",")], "label_values(")
			require.NoError(t, undocumented(substituted(metric), known))
		}
	}
	for _, rule := range alerts(t) {
		series, err := selectors(rule.Expr)
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(series, func(s *parser.VectorSelector) bool { return used[s.Name] }),
			"no panel shows what %s is about", rule.Alert)
	}
	for _, name := range []string{"is_leader", "leader_token", "failover_duration_seconds_bucket",
		"session_remaining_seconds", "session_renewals_total", "cluster_size", "queue_length", "shards_serving",
		"objects_active", "objects_panics_total", "processor_leading", "processor_lag_events"} {
		require.True(t, used["goverse_"+name], name)
	}
}

func TestABadDashboardIsRefused(t *testing.T) {
	text := read(t, dashboardFile)
	for _, change := range [][2]string{{`"legendFormat"`, `"legend"`}, {`"graphMode": "none"`, `"graphMode": 1`},
		{`"showPoints": "never"`, `"points": "never"`}, {`"gridPos"`, `"grid"`}} {
		bad := strings.Replace(text, change[0], change[1], 1)
		require.NotEqual(t, text, bad, change[0])
		_, err := grafana(bad)
		require.Error(t, err, change[1])
	}
}
