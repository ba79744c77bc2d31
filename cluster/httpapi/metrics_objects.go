package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
)

// serviceMetric is one metric with a value for each service of objects.
type serviceMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(objects.ServiceStats) int64
}

// nodeMetric is one metric of all objects of the node.
type nodeMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(objects.Stats) int64
}

func objectDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("goverse_objects_"+name, help, labels, nil)
}

// callsMetric returns the metric of the calls to objects on this node, or on others.
func callsMetric(to string, value func(objects.Stats) int64) nodeMetric {
	const help = "Unary calls that this node sent to objects: local, on this node, or remote. They include calls from " +
		"outside that this node received; a call that is sent again counts each time."
	return nodeMetric{prometheus.NewDesc("goverse_objects_calls_made_total", help, nil, prometheus.Labels{"to": to}),
		prometheus.CounterValue, value}
}

// objectMetrics holds the metrics of a node's objects. Counters start with the node.
type objectMetrics struct {
	ofNode                      []nodeMetric
	ofService                   []serviceMetric
	calls, refused              *prometheus.Desc
	deactivations               *prometheus.Desc
	callDuration, queueDuration *prometheus.Desc
}

func newObjectMetrics() objectMetrics {
	return objectMetrics{
		ofNode: []nodeMetric{
			{objectDesc("turns_running", "Turns of objects that run on this node."), prometheus.GaugeValue,
				func(st objects.Stats) int64 { return int64(st.Running) }},
			callsMetric("local", func(st objects.Stats) int64 { return st.Local }),
			callsMetric("remote", func(st objects.Stats) int64 { return st.Remote }),
			{objectDesc("calls_retried_total", "Retries of calls on this node: no node owned the object's "+
				"shard, or it had moved, or its node was gone."), prometheus.CounterValue,
				func(st objects.Stats) int64 { return st.Retried }},
			{objectDesc("calls_lost_total", "Calls of this node whose connection was lost: they may have "+
				"run, or may still run."),
				prometheus.CounterValue, func(st objects.Stats) int64 { return st.Lost }},
			{objectDesc("waiting_bytes", "Bytes that wait on this node, at most: requests, parts of them, replies, "+
				"and streams that are not read."), prometheus.GaugeValue, func(st objects.Stats) int64 { return st.WaitingBytes }},
			{objectDesc("waiting_bytes_limit", "Bytes that may wait on this node: Objects.MaxWaitingBytes."),
				prometheus.GaugeValue, func(st objects.Stats) int64 { return st.MaxWaitingBytes }},
			{objectDesc("bytes_refused_total", "Calls and streams that this node refused because too many bytes of their "+
				"connection waited."), prometheus.CounterValue, func(st objects.Stats) int64 { return st.RefusedForBytes }},
		},
		ofService: []serviceMetric{
			{objectDesc("active", "Objects that are active on this node.", "service"), prometheus.GaugeValue,
				func(s objects.ServiceStats) int64 { return s.Active }},
			{objectDesc("waiting", "Calls that wait on this node for their object's turn, its activation or its shard.",
				"service"), prometheus.GaugeValue, func(s objects.ServiceStats) int64 { return s.Waiting }},
			{objectDesc("panics_total", "Panics of methods, ticks, factories and Deactivated on this node.", "service"),
				prometheus.CounterValue, func(s objects.ServiceStats) int64 { return s.Panics }},
		},
		calls: objectDesc("calls_total", "Calls that ran on this node, by status code, without those that were "+
			"refused before they started.", "service", "method", "code"),
		refused: objectDesc("calls_refused_total", "Calls that no node started: their object was busy, could not be "+
			"activated, or waited for them, or their deadline came first.", "service", "method",
			"code"),
		deactivations: objectDesc("deactivations_total", "Objects that were deactivated on this node: idle, evicted for "+
			"others, moved with their shard, stopping with the node, lost with its session, failed by a panic, or "+
			"requested by themselves.", "service", "reason"),
		callDuration: objectDesc("call_duration_seconds", "Run time of methods on this node, without the wait for "+
			"their turn. About one call in eight is timed; count and sum are not scaled up.", "service"),
		queueDuration: objectDesc("queue_duration_seconds", "Wait of calls on this node for their turn, of those that "+
			"had to wait and were started.", "service"),
	}
}

// describe sends all descriptions.
func (m objectMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, one := range m.ofNode {
		ch <- one.desc
	}
	for _, one := range m.ofService {
		ch <- one.desc
	}
	for _, desc := range []*prometheus.Desc{m.calls, m.refused, m.deactivations, m.callDuration, m.queueDuration} {
		ch <- desc
	}
}

// collect sends nothing for a node that does not run, or has no objects to show.
func (m objectMetrics) collect(view objectView, st cluster.Status, ch chan<- prometheus.Metric) {
	if view == nil || !st.State.Running() {
		return
	}
	stats := view.Stats()
	for _, one := range m.ofNode {
		ch <- prometheus.MustNewConstMetric(one.desc, one.kind, float64(one.value(stats)))
	}
	for _, s := range stats.Services {
		for _, one := range m.ofService {
			ch <- prometheus.MustNewConstMetric(one.desc, one.kind, float64(one.value(s)), s.Name)
		}
		for _, method := range s.Methods {
			for code, n := range method.Calls {
				ch <- prometheus.MustNewConstMetric(m.calls, prometheus.CounterValue, float64(n), s.Name, method.Name,
					code.String())
			}
			for code, n := range method.Refused {
				ch <- prometheus.MustNewConstMetric(m.refused, prometheus.CounterValue, float64(n), s.Name, method.Name,
					code.String())
			}
		}
		for reason, n := range s.Deactivations {
			ch <- prometheus.MustNewConstMetric(m.deactivations, prometheus.CounterValue, float64(n), s.Name, string(reason))
		}
		ch <- newHistogram(m.callDuration, s.Latency, s.Name)
		ch <- newHistogram(m.queueDuration, s.Queued, s.Name)
	}
}
