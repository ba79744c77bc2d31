package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/goverse/goverse/cluster/automation"
)

type automationMetric = workMetric[automation.Status]

func newAutomationMetric(kind prometheus.ValueType, name, help string,
	value func(automation.Status) (figure float64, known bool)) automationMetric {
	return automationMetric{prometheus.NewDesc("goverse_automation_"+name, help, []string{"automation"}, nil), kind, value}
}

func automationMetrics() []automationMetric {
	known := func(value func(automation.Status) int64) func(automation.Status) (float64, bool) {
		return func(s automation.Status) (float64, bool) { n := value(s); return float64(n), n >= 0 }
	}
	gauge := func(name, help string, value func(automation.Status) int64) automationMetric {
		return newAutomationMetric(prometheus.GaugeValue, name, help, known(value))
	}
	counter := func(name, help string, value func(automation.Status) int64) automationMetric {
		return newAutomationMetric(prometheus.CounterValue, name, help, known(value))
	}
	return []automationMetric{
		newAutomationMetric(prometheus.GaugeValue, "active", "1 while the automation executes items on this node.",
			func(s automation.Status) (float64, bool) { return boolValue(s.Active), true }),
		gauge("token", "Fencing token of the automation's last term on this node, 0 before the first and without a "+
			"leader lock.", func(s automation.Status) int64 { return s.Token }),
		gauge("running_items", "Items that are being executed on this node.",
			func(s automation.Status) int64 { return int64(s.Running) }),
		gauge("due_items", "Items that may be executed now, if the source can count them, while the automation runs on "+
			"this node.", func(s automation.Status) int64 { return s.Due }),
		gauge("waiting_items", "Items that have failed and are due after a pause, if the source can count them.",
			func(s automation.Status) int64 { return s.Waiting }),
		gauge("parked_items", "Items that are not executed again, if the source can count them.",
			func(s automation.Status) int64 { return s.Parked }),
		newAutomationMetric(prometheus.GaugeValue, "done_timestamp_seconds", "Time at which this node last executed an item.",
			func(s automation.Status) (float64, bool) {
				return float64(s.DoneAt.UnixMilli()) / 1000, !s.DoneAt.IsZero()
			}),
		counter("done_total", "Items that were executed on this node.",
			func(s automation.Status) int64 { return s.Done }),
		counter("retries_total", "Failed attempts on this node that are followed by another one.",
			func(s automation.Status) int64 { return s.Retries }),
		counter("given_up_total", "Items that this node parked.", func(s automation.Status) int64 { return s.GivenUp }),
		counter("failures_total", "Failures of the source or the leader lock on this node.",
			func(s automation.Status) int64 { return s.Failures }),
	}
}

// workMetric is one metric with a value for each processor or automation, distinguished by a label.
type workMetric[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(S) (figure float64, known bool)
}

func describeWork[S any](metrics []workMetric[S], ch chan<- *prometheus.Desc) {
	for _, m := range metrics {
		ch <- m.desc
	}
}

// collectWork sends the values that are known. name returns the label's value.
func collectWork[S any](all []S, metrics []workMetric[S], name func(S) string, ch chan<- prometheus.Metric) {
	for _, s := range all {
		for _, m := range metrics {
			if v, known := m.value(s); known {
				ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v, name(s))
			}
		}
	}
}
