package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/processor"
)

// statusMetric is one figure taken from a Status.
type statusMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(st cluster.Status, now time.Time) float64
}

func gauge(name, help string, value func(cluster.Status, time.Time) float64) statusMetric {
	return statusMetric{prometheus.NewDesc("goverse_"+name, help, nil, nil), prometheus.GaugeValue, value}
}

func counter(name, help string, value func(cluster.Status, time.Time) float64) statusMetric {
	return statusMetric{prometheus.NewDesc("goverse_"+name, help, nil, nil), prometheus.CounterValue, value}
}

func boolValue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func statusMetrics() []statusMetric {
	return []statusMetric{
		gauge("is_leader", "1 while this node leads.",
			func(st cluster.Status, _ time.Time) float64 { return boolValue(st.IsLeader) }),
		gauge("has_leader", "1 while this node knows a leader.",
			func(st cluster.Status, _ time.Time) float64 { return boolValue(st.LeaderID != "") }),
		gauge("leader_token", "Fencing token of the leader's term, 0 when there is no leader.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.Token) }),
		gauge("ready", "1 while this node can take work: its session is valid, its view is current, and it does "+
			"not stop.",
			func(st cluster.Status, _ time.Time) float64 { return boolValue(st.Ready) }),
		gauge("cluster_ready", "1 while this node is ready and knows a leader.",
			func(st cluster.Status, _ time.Time) float64 { return boolValue(st.ClusterReady) }),
		gauge("cluster_size", "Registered nodes.",
			func(st cluster.Status, _ time.Time) float64 { return float64(len(st.Nodes)) }),
		gauge("queue_length", "Candidates in the election queue, the leader included.",
			func(st cluster.Status, _ time.Time) float64 { return float64(len(st.Queue)) }),
		gauge("mode_fallback", "1 while the leader is chosen by name because the election fails.",
			func(st cluster.Status, _ time.Time) float64 { return boolValue(st.Mode == leaderelection.ModeFallback) }),
		gauge("election_failed", "1 while this node cannot campaign.",
			func(st cluster.Status, _ time.Time) float64 { return boolValue(st.ElectionFailed != "") }),
		gauge("session_valid", "1 while this node's session with etcd is valid.",
			func(st cluster.Status, _ time.Time) float64 { return boolValue(st.SessionValid) }),
		gauge("session_remaining_seconds", "Seconds until the session's deadline unless it is renewed, 0 without a session.",
			func(st cluster.Status, now time.Time) float64 {
				if st.Deadline.IsZero() {
					return 0
				}
				return max(0, st.Deadline.Sub(now).Seconds())
			}),
		gauge("view_age_seconds", "Age of this node's view of the cluster: it contains all that etcd had "+
			"committed that long ago; 0 before the first.",
			func(st cluster.Status, now time.Time) float64 {
				if st.ViewSeen.IsZero() {
					return 0
				}
				return max(0, now.Sub(st.ViewSeen).Seconds())
			}),
		gauge("snapshot_revision", "etcd revision of this node's view of the cluster.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.Revision) }),
		counter("terms_total", "Terms of leadership that this node began.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.Terms) }),
		counter("sessions_lost_total", "Sessions with etcd that this node lost.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.SessionsLost) }),
		counter("log_lines_lost_total", "Lines of this node's log that were never written, because the log's "+
			"destination did not take them in time.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.Log.Lost) }),
		gauge("log_stalled_seconds", "Seconds for which the line being written to the log has waited for the log's "+
			"destination, 0 when none is.",
			func(st cluster.Status, _ time.Time) float64 { return st.Log.StalledFor.Seconds() }),
		counter("mirror_rebuilds_total", "Rebuilds of the view of the cluster after its watch was lost or lagged.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.Rebuilds) }),
		gauge("silent_nodes", "Registered nodes that do not answer the nodes that watch them.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.SilentNodes) }),
		gauge("leader_silent_seconds", "Seconds for which the leader has not answered the nodes that watch it, 0 while it "+
			"does.",
			func(st cluster.Status, _ time.Time) float64 { return st.LeaderSilent.Seconds() }),
		gauge("crash_watches", "Other nodes whose processes this node watches at present.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.Crashes.Watching) }),
		gauge("crash_watchers", "Other nodes that watch this node's process at present.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.Watchers) }),
		gauge("crash_armed_watchers", "Other nodes that may accuse this node of silence, 0 without a silence time-out.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.ArmedWatchers) }),
		gauge("crash_acknowledgements_missing", "1 while an armed watcher acknowledges none of this node's heartbeats, so "+
			"that it claims something only while etcd answers its reads, a few a second.",
			func(st cluster.Status, _ time.Time) float64 {
				return boolValue(st.Proof == cluster.ProofRead || st.Proof == cluster.ProofLapsed)
			}),
		counter("crash_accusations_total", "Nodes that this node accused of being gone or silent.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.Crashes.Accusations) }),
		counter("crash_removals_total", "Nodes that this node removed because they were gone or silent.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.Crashes.Removals) }),
		counter("crash_silence_removals_total", "Nodes that this node removed because they were silent: their processes "+
			"stood still, or their hosts were lost or cut off.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.Crashes.SilenceRemovals) }),
		counter("crash_refuted_total", "Accusations by this node that the accused refuted.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.Crashes.Refuted) }),
		counter("crash_refutations_total", "Accusations against this node that it refuted.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.Crashes.Refutations) }),
		counter("crash_watchers_lost_total",
			"Lost watchers of this node, after each of which it asked etcd to confirm its session.",
			func(st cluster.Status, _ time.Time) float64 { return float64(st.Crashes.WatchersLost) }),
	}
}

// statusCollector takes all figures of a scrape from one Status, so that they are consistent.
type statusCollector struct {
	source  Source
	build   *prometheus.Desc
	metrics []statusMetric
	shards  []shardMetric

	processors       func() []processor.Status
	processorMetrics []processorMetric

	automations       func() []automation.Status
	automationMetrics []automationMetric

	objects       func() objectView
	objectMetrics objectMetrics

	certificates func() []Certificate
}

var expiryDesc = prometheus.NewDesc("goverse_certificate_expiry_timestamp_seconds",
	"Expiry of the certificate in a file that this process uses; of several authorities, of "+
		"the one that lasts longest.",
	[]string{"file", "use"}, nil)

// Describe implements prometheus.Collector.
func (c *statusCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.build
	for _, m := range c.metrics {
		ch <- m.desc
	}
	for _, m := range c.shards {
		ch <- m.desc
	}
	ch <- pauseDesc
	describeStats(ch)
	describeWork(c.processorMetrics, ch)
	describeWork(c.automationMetrics, ch)
	c.objectMetrics.describe(ch)
	ch <- expiryDesc
}

// Collect implements prometheus.Collector.
func (c *statusCollector) Collect(ch chan<- prometheus.Metric) {
	st, now := c.source.Status(), time.Now()
	ch <- prometheus.MustNewConstMetric(c.build, prometheus.GaugeValue, 1)
	for _, m := range c.metrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(st, now))
	}
	collectStats(c.source, ch)
	collectShards(c.source, st, c.shards, ch)
	collectWork(c.processors(), c.processorMetrics, func(s processor.Status) string { return s.Name }, ch)
	collectWork(c.automations(), c.automationMetrics, func(s automation.Status) string { return s.Name }, ch)
	c.objectMetrics.collect(c.objects(), st, ch)
	for _, cert := range c.certificates() {
		ch <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(cert.NotAfter.Unix()),
			strings.ToValidUTF8(cert.File, "\uFFFD"), cert.Use) // a file's name may have any bytes
	}
}

// NewCollector returns a collector of a node's metrics, for a registry of the program's own. The /metrics of
// [New] has its own registry, which also has the metrics of Go and of the process. A registry takes one
// collector; if several nodes run in one process, wrap the others with prometheus.WrapRegistererWith.
// NewCollector starts no goroutine, and a scrape does not block.
func NewCollector(source Source, opts Options) prometheus.Collector {
	return newCollector(source, func() objectView { return objectsOf(source) }, opts.withDefaults())
}

func newCollector(source Source, view func() objectView, opts Options) *statusCollector {
	build := prometheus.NewDesc("goverse_build_info", "Always 1; the label has the program's version.", nil,
		prometheus.Labels{"version": opts.Version})
	return &statusCollector{source: source, build: build, metrics: statusMetrics(), shards: shardMetrics(),
		processors: opts.Processors, processorMetrics: processorMetrics(), automations: opts.Automations,
		automationMetrics: automationMetrics(), objects: view, objectMetrics: newObjectMetrics(),
		certificates: opts.Certificates}
}

// metricsHandler serves a registry of its own, so that two nodes in one process do not collide and the program's
// own registry is not changed.
func (a *api) metricsHandler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(a.source, a.objects, a.opts), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
