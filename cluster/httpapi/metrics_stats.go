package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/stats"
)

// StatsSource is a Source with counters; *cluster.Cluster implements it. Without it the metrics in this file are
// missing.
type StatsSource interface {
	// Stats returns the counters. It must not block.
	Stats() cluster.Stats
}

// Metrics taken from Stats.
var (
	leadersLostDesc = prometheus.NewDesc("goverse_leaders_lost_total",
		"Terms of the cluster's leaders that this node saw end, by reason.", []string{"reason"}, nil)
	failoverDesc = prometheus.NewDesc("goverse_failover_duration_seconds",
		"Time without a leader before each election that this node saw, from the first sign that "+
			"the former leader was gone, such as its silence.", nil, nil)
	termBeganDesc = prometheus.NewDesc("goverse_term_began_timestamp_seconds",
		"Time at which this node learned that it leads, 0 while it does not.", nil, nil)
	termDesc = prometheus.NewDesc("goverse_term_duration_seconds",
		"Duration of the terms that this node led and that have ended.", nil, nil)
	renewalsDesc = prometheus.NewDesc("goverse_session_renewals_total",
		"Renewals of this node's session with etcd, by outcome.", []string{"outcome"}, nil)
	renewalDesc = prometheus.NewDesc("goverse_session_renewal_duration_seconds",
		"Duration of successful renewals, with the read that confirms each.", nil, nil)
)

func describeStats(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leadersLostDesc, failoverDesc, termBeganDesc, termDesc, renewalsDesc,
		renewalDesc} {
		ch <- d
	}
}

func collectStats(source Source, ch chan<- prometheus.Metric) {
	from, ok := source.(StatsSource)
	if !ok {
		return
	}
	st := from.Stats()
	for reason, n := range st.Lost {
		ch <- prometheus.MustNewConstMetric(leadersLostDesc, prometheus.CounterValue, float64(n), reason)
	}
	ch <- newHistogram(failoverDesc, st.Elected)
	began := 0.0
	if !st.TermBegan.IsZero() {
		began = float64(st.TermBegan.UnixMilli()) / 1000
	}
	ch <- prometheus.MustNewConstMetric(termBeganDesc, prometheus.GaugeValue, began)
	ch <- newHistogram(termDesc, st.Terms)
	ch <- prometheus.MustNewConstMetric(renewalsDesc, prometheus.CounterValue, float64(st.Renewals.Count), "renewed")
	ch <- prometheus.MustNewConstMetric(renewalsDesc, prometheus.CounterValue, float64(st.RenewalsFailed), "failed")
	ch <- newHistogram(renewalDesc, st.Renewals)
}

func newHistogram(desc *prometheus.Desc, d stats.Durations, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(d.Buckets))
	for _, b := range d.Buckets {
		buckets[b.AtMost.Seconds()] = uint64(b.Count)
	}
	return prometheus.MustNewConstHistogram(desc, uint64(d.Count), d.Sum.Seconds(), buckets, labels...)
}
