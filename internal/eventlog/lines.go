package eventlog

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/event"
)

// LogLine logs an event if it concerns an operator of this node. Actions of this node itself are logged where
// they happen, with the same field.
func LogLine(log hclog.Logger, e event.Event, self string, members int) {
	if e.Node == self || e.Type == event.NodeRemoved && e.Peer == self {
		return
	}
	about := []any{"address", e.Node}
	level, text := hclog.Info, ""
	switch e.Type {
	case event.NodeJoined:
		text, about = "a node joined", append(about, "members", members)
	case event.NodeLeft:
		text, about = "a node left", append(about, "members", members)
	case event.NodeLost:
		text, about = "a node was lost", append(about, "members", members)
	case event.NodeRemoved:
		text, about = "a node was removed before its lease expired", append(about, "members", members, "accuser", e.Peer,
			"evidence", e.Reason, "grace_period", formatSeconds(e.Seconds))
	case event.LeaderElected:
		text, about = "the leader is another node", []any{"leader", e.Node, "token", e.Token}
		if e.Seconds > 0 {
			about = append(about, "leaderless", formatSeconds(e.Seconds))
		}
	case event.LeaderLost:
		level, text, about = hclog.Debug, "the leader's term is over", []any{"leader", e.Node, "token", e.Token,
			"reason", e.Reason}
		if e.Seconds > 0 {
			about = append(about, "silent", formatSeconds(e.Seconds))
		}
	case event.ClusterDegraded:
		level, text, about = hclog.Warn, "this node knows of no leader", []any{"since", e.Time.Format(time.RFC3339Nano)}
	case event.ClusterRecovered:
		text, about = "there is a leader again", []any{"leader", e.Node, "token", e.Token, "leaderless",
			formatSeconds(e.Seconds)}
	case event.FallbackEntered:
		level, text, about = hclog.Warn, "the election does not work: a node leads by its name", []any{"leader", e.Node,
			"token", e.Token}
	case event.FallbackLeft:
		text, about = "leadership by name has ended", []any{"leader", e.Node, "token", e.Token}
	case event.NodeSilent:
		level, text, about = hclog.Warn, "a node does not answer the nodes that watch it", append(about, "watcher", e.Peer,
			"for", formatSeconds(e.Seconds))
	case event.NodeAnswering:
		text, about = "a node answers again", append(about, "silent", formatSeconds(e.Seconds))
	case event.DrainStarted:
		text = "a node gives its shards up"
	case event.DrainEnded:
		text = "a node may have shards again"
	case event.FormatChanged:
		text, about = "the cluster may use another format", append(about, "format", e.ClusterFormat)
	default: // accusations and shard maps are logged by their writers, lost sessions by their owners
		return
	}
	log.Log(level, text, append(about, event.Field, string(e.Type))...)
}

func formatSeconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}
