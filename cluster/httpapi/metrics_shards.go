package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/shard"
)

// shardFigures holds the sources of the metrics about shards. The table is empty while there is no readable map.
type shardFigures struct {
	shard.Stats
	table shard.Table
	own   shard.OwnerRow
}

type shardMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(shardFigures) float64
}

func shardGauge(name, help string, value func(shardFigures) float64) shardMetric {
	return shardMetric{prometheus.NewDesc("goverse_shards_"+name, help, nil, nil), prometheus.GaugeValue, value}
}

func shardMovesMetric(kind string, value func(shardFigures) float64) shardMetric {
	const help = "Shards that this node's plans moved: assigned because their owner was gone, drained off " +
		"a node that leaves, or rebalanced."
	return shardMetric{prometheus.NewDesc("goverse_shards_moves_total", help, nil, prometheus.Labels{"kind": kind}),
		prometheus.CounterValue, value}
}

func shardMetrics() []shardMetric {
	return []shardMetric{
		{prometheus.NewDesc("goverse_shards", "Shards of the cluster.", nil, nil), prometheus.GaugeValue,
			func(f shardFigures) float64 { return float64(f.Shards) }},
		shardGauge("generation", "Generation of the shard map, 0 when there is none.",
			func(f shardFigures) float64 { return float64(f.table.Generation) }),
		shardGauge("owned", "Shards that the map assigns to this node.",
			func(f shardFigures) float64 { return float64(f.own.Count) }),
		shardGauge("acquiring", "Shards that this node prepares to serve.",
			func(f shardFigures) float64 { return float64(f.Acquiring) }),
		shardGauge("serving", "Shards that this node serves, 0 while its session is not valid.",
			func(f shardFigures) float64 { return float64(f.Serving) }),
		shardGauge("releasing", "Shards that this node releases; it waits for the calls in them.",
			func(f shardFigures) float64 { return float64(f.Releasing) }),
		shardGauge("waiting", "Shards of this node that their former owner has not released.",
			func(f shardFigures) float64 { return float64(f.Waiting) }),
		shardGauge("moves_open", "Shards in the whole cluster that their former owner has not released.",
			func(f shardFigures) float64 { return float64(f.table.OpenMoves) }),
		shardGauge("plan_seconds", "Time that this node took to compute its last shard map, 0 before the first.",
			func(f shardFigures) float64 { return f.PlanTime.Seconds() }),
		{prometheus.NewDesc("goverse_shards_plans_total", "Shard maps that this node wrote.", nil, nil),
			prometheus.CounterValue,
			func(f shardFigures) float64 { return float64(f.Plans) }},
		shardMovesMetric("assigned", func(f shardFigures) float64 { return float64(f.Assigned) }),
		shardMovesMetric("drained", func(f shardFigures) float64 { return float64(f.Drained) }),
		shardMovesMetric("rebalanced", func(f shardFigures) float64 { return float64(f.Rebalanced) }),
	}
}

var pauseDesc = prometheus.NewDesc("goverse_shards_handoff_pause_seconds",
	"For each shard that a move brought to this node, the time from when the node saw the move until it served the "+
		"shard.", nil, nil)

// collectShards sends nothing for a node without sharding.
func collectShards(source Source, st cluster.Status, metrics []shardMetric, ch chan<- prometheus.Metric) {
	if st.Shards.Shards == 0 {
		return
	}
	f := shardFigures{Stats: st.Shards}
	if table, err := source.ShardTable(); err == nil { // the page /cluster/shards shows the error
		f.table = table
		for _, o := range table.Owners {
			if o.Address == st.NodeID && o.State != shard.Gone {
				f.own = o
			}
		}
	}
	for _, m := range metrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(f))
	}
	ch <- newHistogram(pauseDesc, st.Shards.Pauses)
}
