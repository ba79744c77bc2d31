package deploy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// selectors returns the time series that an expression reads.
func selectors(expr string) (all []*parser.VectorSelector, err error) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			all = append(all, s)
		}
		return nil
	})
	return all, nil
}

// undocumented returns an error if an expression reads a metric that docs/reference/metrics.md does not list; `up` is
// Prometheus' own.
func undocumented(expr string, known map[string]bool) error {
	all, err := selectors(expr)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Name != "up" && !known[s.Name] {
			return fmt.Errorf("%s: docs/reference/metrics.md has no %q", expr, s.Name)
		}
	}
	return nil
}

// reasons returns the values that an expression selects for the label `reason`.
func reasons(t *testing.T, expr string) (all []string) {
	t.Helper()
	series, err := selectors(expr)
	require.NoError(t, err)
	for _, s := range series {
		for _, m := range s.LabelMatchers {
			if m.Name != "reason" {
				continue
			}
			require.Contains(t, []labels.MatchType{labels.MatchEqual, labels.MatchRegexp}, m.Type)
			all = append(all, strings.Split(m.Value, "|")...)
		}
	}
	return all
}

func TestWhatIsWrongWithAnExpressionIsFound(t *testing.T) {
	known := documented(t)
	require.NoError(t, undocumented(`rate(goverse_failover_duration_seconds_bucket[5m]) and up`, known))
	require.Error(t, undocumented(`sum(goverse_is_leader`, known))
	require.ErrorContains(t, undocumented(`goverse_is_leader + goverse_leads`, known), "goverse_leads")
	require.ErrorContains(t, undocumented(`goverse_failover_duration_seconds`, known), "goverse_failover_duration_seconds",
		"a histogram's name alone selects nothing")
}
