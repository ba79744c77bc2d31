package deploy

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
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
	"sigs.k8s.io/yaml"
)

const alertsFile = "prometheus/alerts.yaml"

// alerts returns the rules, which must pass Prometheus' own parser.
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

// Every alert describes the problem, its remedy and its severity, reads existing metrics, and has a row in
// docs/operate/alerts.md.
func TestAlerts(t *testing.T) {
	known, alertsPage := documented(t), read(t, "..", "docs", "operate", "alerts.md")
	for _, rule := range alerts(t) {
		require.Contains(t, []string{"critical", "warning"}, rule.Labels["severity"], rule.Alert)
		require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		require.NotEmpty(t, rule.Annotations["description"], rule.Alert)
		require.NoError(t, undocumented(rule.Expr, known), rule.Alert)
		require.True(t, strings.Contains(alertsPage, "\n| `"+rule.Alert+"` |"), "no row for %s", rule.Alert)
	}
	require.Equal(t, len(alerts(t)), strings.Count(alertsPage, "\n| `Goverse"), "it has no others")
}

// The alerts select only reasons that the code uses.
func TestReasonsOfAlerts(t *testing.T) {
	code := read(t, "..", "internal", "member", "candidacy", "termend.go") + read(t, "..", "cluster", "event", "event.go")
	found := 0
	for _, rule := range alerts(t) {
		for _, reason := range reasons(t, rule.Expr) {
			found++
			require.True(t, strings.Contains(code, fmt.Sprintf("%q", reason)), "%s: %q", rule.Alert, reason)
		}
	}
	require.Positive(t, found)
}

// ruleTests is the part of a file for `promtool test rules` that our tests use.
type ruleTests struct {
	RuleFiles          []string       `json:"rule_files"`
	EvaluationInterval model.Duration `json:"evaluation_interval"`
	Tests              []ruleTest     `json:"tests"`
}

// ruleTest holds series, and expectations at certain times after evaluating the rules up to them.
type ruleTest struct {
	Name        string         `json:"name"`
	Interval    model.Duration `json:"interval"`
	InputSeries []struct {
		Series string `json:"series"`
		Values string `json:"values"`
	} `json:"input_series"`
	PromqlExprTest []exprTest `json:"promql_expr_test"`
}

type exprTest struct {
	Expr       string         `json:"expr"`
	EvalTime   model.Duration `json:"eval_time"`
	ExpSamples []struct {
		Labels string  `json:"labels"`
		Value  float64 `json:"value"`
	} `json:"exp_samples"`
}

// evaluate loads the series of a test and makes Prometheus evaluate the rules at each step, from 0 to the last
// of the test's times.
func (rt ruleTest) evaluate(t *testing.T, step time.Duration, file string) *promqltest.LazyLoader {
	t.Helper()
	var load strings.Builder
	fmt.Fprintf(&load, "load %v\n", rt.Interval)
	for _, s := range rt.InputSeries {
		fmt.Fprintf(&load, "  %s %s\n", s.Series, s.Values)
	}
	promql := parser.NewParser(parser.Options{})
	suite, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{EnableAtModifier: true,
		EnableNegativeOffset: true, Parser: promql})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, suite.Close()) })
	manager := rules.NewManager(&rules.ManagerOptions{Context: t.Context(), Parser: promql,
		QueryFunc:    rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()),
		AppendableV2: suite.Storage(), Logger: slog.New(slog.DiscardHandler),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}})
	groups, errs := manager.LoadGroups(time.Duration(rt.Interval), labels.EmptyLabels(), "", nil, false, file)
	require.Empty(t, errs)
	for _, g := range groups {
		for _, r := range g.AlertingRules() {
			r.SetRestored(true) // this makes it write ALERTS
		}
	}
	var last model.Duration
	for _, q := range rt.PromqlExprTest {
		last = max(last, q.EvalTime)
	}
	for at := time.Duration(0); at <= time.Duration(last); at += step {
		suite.WithSamplesTill(time.Unix(0, 0).Add(at), func(err error) {
			require.NoError(t, err)
			for _, g := range groups {
				g.Eval(suite.Context(), time.Unix(0, 0).Add(at))
				for _, r := range g.Rules() {
					require.NoError(t, r.LastError(), r.Name())
				}
			}
		})
	}
	return suite
}

// samples returns the values of the expression at that time, and the expected ones.
func (q exprTest) samples(t *testing.T, suite *promqltest.LazyLoader) (got, want map[string]float64) {
	t.Helper()
	query, err := suite.QueryEngine().NewInstantQuery(suite.Context(), suite.Queryable(), nil, q.Expr,
		time.Unix(0, 0).Add(time.Duration(q.EvalTime)))
	require.NoError(t, err)
	defer query.Close()
	vector, err := query.Exec(suite.Context()).Vector()
	require.NoError(t, err)
	got, want = map[string]float64{}, map[string]float64{}
	for _, sample := range vector {
		got[sample.Metric.String()] = sample.F
	}
	for _, sample := range q.ExpSamples {
		metric, err := parser.NewParser(parser.Options{}).ParseMetric(sample.Labels)
		require.NoError(t, err)
		want[metric.String()] = sample.Value
	}
	return got, want
}

func alertTests(t *testing.T) (file ruleTests) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, "prometheus", "alerts_test.yaml")), &file))
	require.Equal(t, []string{"alerts.yaml"}, file.RuleFiles)
	return file
}

// Every alert fires when it must, and none fires in a healthy cluster. Prometheus' rule engine evaluates the
// cases in alerts_test.yaml, as `promtool test rules` does.
func TestWhenAlertsFire(t *testing.T) {
	file, fired := alertTests(t), map[string]bool{}
	for _, test := range file.Tests {
		suite := test.evaluate(t, time.Duration(file.EvaluationInterval), alertsFile)
		for _, q := range test.PromqlExprTest {
			got, want := q.samples(t, suite)
			require.Equal(t, want, got, "%s, at %v", test.Name, q.EvalTime)
			for alert := range got {
				fired[alertName.FindStringSubmatch(alert)[1]] = true
			}
		}
	}
	var all []string
	for _, rule := range alerts(t) {
		all = append(all, rule.Alert)
	}
	slices.Sort(all)
	require.Equal(t, all, slices.Sorted(maps.Keys(fired)), "each alert was seen to fire")
}

var alertName = regexp.MustCompile(`alertname="(\w+)"`)

// The cases in alerts_test.yaml detect an alert that fires too late or too easily.
func TestBadAlertsAreFound(t *testing.T) {
	file := alertTests(t)
	for _, change := range [][2]string{
		{"(goverse_is_leader) > 1\n        for: 1m", "(goverse_is_leader) > 1"},
		{"(goverse_is_leader) > 1", "(goverse_is_leader) > 2"},
		{"by (namespace, job) (goverse_has_leader) == 0", "(goverse_has_leader) == 0"},
		{"(goverse_has_leader) == 0\n        for: 30s", "(goverse_has_leader) == 0\n        for: 5m"},
		{"        keep_firing_for: 5m\n", ""},
		{"goverse_processor_lag_events > 0 and", "goverse_processor_lag_events >= 0 and"},
		{"time()) < 14 * 86400", "time()) < 30 * 86400"},
		{"86400 <= (goverse_certificate", "(goverse_certificate"},
	} {
		text := read(t, alertsFile)
		bad := strings.Replace(text, change[0], change[1], 1)
		require.NotEqual(t, text, bad, change[0])
		path := filepath.Join(t.TempDir(), "alerts.yaml")
		require.NoError(t, os.WriteFile(path, []byte(bad), 0o600))
		require.True(t, slices.ContainsFunc(file.Tests, func(test ruleTest) bool {
			suite := test.evaluate(t, time.Duration(file.EvaluationInterval), path)
			return slices.ContainsFunc(test.PromqlExprTest, func(q exprTest) bool {
				got, want := q.samples(t, suite)
				return !maps.Equal(got, want)
			})
		}), change[1])
	}
}
