package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/goverse/goverse/cluster/processor"
)

type processorMetric = workMetric[processor.Status]

func newProcessorMetric(kind prometheus.ValueType, name, help string,
	value func(processor.Status) float64) processorMetric {
	return processorMetric{prometheus.NewDesc("goverse_processor_"+name, help, []string{"processor"}, nil), kind,
		func(s processor.Status) (float64, bool) { return value(s), true }}
}

func processorMetrics() []processorMetric {
	lag := newProcessorMetric(prometheus.GaugeValue, "lag_events",
		"Events that wait, if the source can count them, while the processor runs on this node.", nil)
	lag.value = func(s processor.Status) (float64, bool) { return float64(s.Lag), s.Lag >= 0 }
	handled := newProcessorMetric(prometheus.GaugeValue, "handled_timestamp_seconds",
		"Time at which this node last stored a batch.", nil)
	handled.value = func(s processor.Status) (float64, bool) {
		return float64(s.HandledAt.UnixMilli()) / 1000, !s.HandledAt.IsZero()
	}
	return []processorMetric{
		newProcessorMetric(prometheus.GaugeValue, "leading", "1 while the processor processes on this node.",
			func(s processor.Status) float64 { return boolValue(s.Leading) }),
		newProcessorMetric(prometheus.GaugeValue, "paused", "1 while the processor handles no further event on this node.",
			func(s processor.Status) float64 { return boolValue(s.Paused) }),
		newProcessorMetric(prometheus.GaugeValue, "token",
			"Fencing token of the processor's last term on this node, 0 before "+
				"the first.",
			func(s processor.Status) float64 { return float64(s.Token) }),
		lag, handled,
		newProcessorMetric(prometheus.GaugeValue, "attempts", "Failures of the next event so far.",
			func(s processor.Status) float64 { return float64(s.Attempts) }),
		newProcessorMetric(prometheus.CounterValue, "events_total", "Events that were handled on this node.",
			func(s processor.Status) float64 { return float64(s.Handled) }),
		newProcessorMetric(prometheus.CounterValue, "batches_total", "Batches that were stored by this node.",
			func(s processor.Status) float64 { return float64(s.Batches) }),
		newProcessorMetric(prometheus.CounterValue, "retries_total", "Attempts at events that failed on this node.",
			func(s processor.Status) float64 { return float64(s.Retries) }),
		newProcessorMetric(prometheus.CounterValue, "parked_total",
			"Events that this node parked without having handled them.",
			func(s processor.Status) float64 { return float64(s.Parked) }),
		newProcessorMetric(prometheus.CounterValue, "failures_total",
			"Failures of the source, the checkpoint or the leader lock on this node.",
			func(s processor.Status) float64 { return float64(s.Failures) }),
	}
}
