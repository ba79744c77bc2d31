package httpapi

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/histogram"
)

var updateDoc = flag.Bool("metrics.update", false, "write docs/reference/metrics.md anew")

const metricsDoc = "../../docs/reference/metrics.md"

// all is a source with a value for every metric.
type all struct{ *fake }

func (all) Stats() cluster.Stats {
	recorded := histogram.NewDurations(time.Millisecond, time.Second)
	recorded.Observe(2 * time.Millisecond)
	d := recorded.Snapshot()
	return cluster.Stats{Elected: d, Terms: d, Renewals: d, RenewalsFailed: 3, Lost: map[string]int64{"resigned": 2}}
}

var _ StatsSource = (*cluster.Cluster)(nil)

func gatherAll(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry() // verifies that collected metrics are described
	registry.MustRegister(newCollector(all{leader()}, func() objectView { return someObjects() },
		Options{Version: "v1", Processors: processors, Automations: automations, Certificates: func() []Certificate {
			return []Certificate{{Use: "http", File: "http.pem", NotAfter: time.Unix(1, 0)}}
		}}.withDefaults()))
	families, err := registry.Gather()
	require.NoError(t, err)
	return families
}

// Names and help texts follow Prometheus' rules.
func TestMetricsLint(t *testing.T) {
	t.Parallel()
	problems, err := promlint.NewWithMetricFamilies(gatherAll(t)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

// The table in docs/reference/metrics.md matches the exported metrics. Regenerate it with
//
//	go test ./cluster/httpapi -run MetricsDoc -metrics.update
func TestMetricsDoc(t *testing.T) {
	t.Parallel()
	// Every described metric is gathered, so the table is complete.
	described := make(chan *prometheus.Desc, 1000)
	newCollector(all{leader()}, func() objectView { return someObjects() }, Options{}.withDefaults()).Describe(described)
	close(described)
	families := gatherAll(t)
	for d := range described {
		require.True(t, slices.ContainsFunc(families, func(f *dto.MetricFamily) bool {
			return strings.Contains(d.String(), fmt.Sprintf("fqName: %q", f.GetName()))
		}), "the test has no value for %s", d)
	}

	var rows strings.Builder
	rows.WriteString("| metric | type | labels | |\n|---|---|---|---|\n")
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()),
			strings.Join(labels, ", "), strings.ReplaceAll(f.GetHelp(), "|", `\|`))
	}
	doc, err := os.ReadFile(metricsDoc)
	require.NoError(t, err)
	const begin, end = "<!-- exported -->\n", "<!-- /exported -->\n"
	before, rest, found := strings.Cut(string(doc), begin)
	require.True(t, found)
	table, after, found := strings.Cut(rest, end)
	require.True(t, found)
	if *updateDoc {
		require.NoError(t, os.WriteFile(metricsDoc, []byte(before+begin+rows.String()+end+after), 0o644))
		return
	}
	require.Equal(t, rows.String(), table, "write it anew: go test ./cluster/httpapi -run MetricsDoc -metrics.update")
}
