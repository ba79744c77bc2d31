package deploy

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/require"

	"context"

	"sigs.k8s.io/yaml"
)

const alertsFile = "prometheus/alerts.yaml"

// alerts are the rules, which Prometheus' own parser has found nothing wrong with.
func alerts(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile(alertsFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// Every alert says what is wrong, what to do about it and how bad it is, reads metrics that there are, and has its row
// in docs/operations.md.
func TestAlerts(t *testing.T) {
	known, operations := documented(t), read(t, "..", "docs", "operations.md")
	for _, rule := range alerts(t) {
		require.Contains(t, []string{"critical", "warning"}, rule.Labels["severity"], rule.Alert)
		require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		require.NotEmpty(t, rule.Annotations["description"], rule.Alert)
		require.NoError(t, undocumented(rule.Expr, known), rule.Alert)
		require.Contains(t, operations, "| `"+rule.Alert+"` |", "docs/operations.md says what to do")
	}
	require.Equal(t, len(alerts(t)), strings.Count(operations, "\n| `Goverse"), "docs/operations.md has those that there are")
}

// The reasons that alerts select are those of the code.
func TestReasonsOfAlerts(t *testing.T) {
	code := read(t, "..", "cluster", "election", "term.go") + read(t, "..", "cluster", "event", "event.go")
	found := 0
	for _, rule := range alerts(t) {
		for _, reason := range reasons(t, rule.Expr) {
			found++
			require.Contains(t, code, fmt.Sprintf("%q", reason), rule.Alert)
		}
	}
	require.Positive(t, found)
}

// ruleTests is a file for `promtool test rules`, as far as ours uses that form.
type ruleTests struct {
	RuleFiles          []string       `json:"rule_files"`
	EvaluationInterval model.Duration `json:"evaluation_interval"`
	Tests              []struct {
		Name        string         `json:"name"`
		Interval    model.Duration `json:"interval"`
		InputSeries []struct {
			Series string `json:"series"`
			Values string `json:"values"`
		} `json:"input_series"`
		PromqlExprTest []struct {
			Expr       string         `json:"expr"`
			EvalTime   model.Duration `json:"eval_time"`
			ExpSamples []struct {
				Labels string  `json:"labels"`
				Value  float64 `json:"value"`
			} `json:"exp_samples"`
		} `json:"promql_expr_test"`
	} `json:"tests"`
}

// Every alert fires when it has to, and none in a healthy cluster: what alerts_test.yaml says is what Prometheus' rule
// engine does, as `promtool test rules` does it.
func TestWhenAlertsFire(t *testing.T) {
	var file ruleTests
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, "prometheus", "alerts_test.yaml")), &file))
	require.Equal(t, []string{"alerts.yaml"}, file.RuleFiles)
	promql := parser.NewParser(parser.Options{})
	fired, checked := map[string]bool{}, 0
	for _, test := range file.Tests {
		var load strings.Builder
		fmt.Fprintf(&load, "load %v\n", test.Interval)
		for _, s := range test.InputSeries {
			fmt.Fprintf(&load, "  %s %s\n", s.Series, s.Values)
		}
		suite, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{EnableAtModifier: true,
			EnableNegativeOffset: true, Parser: promql})
		require.NoError(t, err)
		manager := rules.NewManager(&rules.ManagerOptions{Context: t.Context(), Parser: promql,
			QueryFunc:    rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()),
			AppendableV2: suite.Storage(), Logger: slog.New(slog.DiscardHandler),
			NotifyFunc: func(context.Context, string, ...*rules.Alert) {}})
		groups, errs := manager.LoadGroups(time.Duration(test.Interval), labels.EmptyLabels(), "", nil, false, alertsFile)
		require.Empty(t, errs)
		for _, g := range groups {
			for _, r := range g.AlertingRules() {
				r.SetRestored(true) // so that ALERTS is written
			}
		}
		var last model.Duration
		for _, q := range test.PromqlExprTest {
			last = max(last, q.EvalTime)
		}
		step := time.Duration(file.EvaluationInterval)
		for at := time.Unix(0, 0).UTC(); !at.After(time.Unix(0, 0).Add(time.Duration(last))); at = at.Add(step) {
			suite.WithSamplesTill(at, func(err error) {
				require.NoError(t, err)
				for _, g := range groups {
					g.Eval(suite.Context(), at)
					for _, r := range g.Rules() {
						require.NoError(t, r.LastError(), r.Name())
					}
				}
			})
		}
		for _, q := range test.PromqlExprTest {
			query, err := suite.QueryEngine().NewInstantQuery(suite.Context(), suite.Queryable(), nil, q.Expr,
				time.Unix(0, 0).Add(time.Duration(q.EvalTime)))
			require.NoError(t, err)
			vector, err := query.Exec(suite.Context()).Vector()
			require.NoError(t, err)
			got, want := map[string]float64{}, map[string]float64{}
			for _, sample := range vector {
				got[sample.Metric.String()] = sample.F
				fired[sample.Metric.Get("alertname")] = true
			}
			for _, sample := range q.ExpSamples {
				metric, err := promql.ParseMetric(sample.Labels)
				require.NoError(t, err)
				want[metric.String()] = sample.Value
			}
			require.Equal(t, want, got, "%s, at %v", test.Name, q.EvalTime)
			query.Close()
			checked++
		}
		require.NoError(t, suite.Close())
	}
	require.Greater(t, checked, 30)
	var all []string
	for _, rule := range alerts(t) {
		all = append(all, rule.Alert)
	}
	slices.Sort(all)
	require.Equal(t, all, slices.Sorted(maps.Keys(fired)), "each alert was seen to fire")
}
