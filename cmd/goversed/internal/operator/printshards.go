package operator

import (
	"fmt"
	"io"
	"strings"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/sharding/shardview"
)

// maxRangesLength limits the length of a list of ranges in a table. JSON has all of it.
const maxRangesLength = 40

// PrintShards writes the owners of all shards, and the moves.
func PrintShards(out io.Writer, v shard.Table, asJSON bool) error {
	if asJSON {
		return printJSON(out, v)
	}
	w := &tableWriter{out: out}
	w.writeLine("shards    %d, of which %d may be served", v.Count, v.MayServe())
	w.writeLine("map       generation %d", v.Generation)
	w.writeLine("balance   %d to %d an owner", v.Balance.Least, v.Balance.Most)
	w.writeLine("moves     %d open", v.OpenMoves)
	if v.Unowned != "" {
		w.writeLine("unowned   %s", clipRanges(v.Unowned))
	}
	w.writeLine("")
	w.writeRow("OWNER", "STATE", "WEIGHT", "COUNT", "MAY SERVE", "SHARDS")
	for _, o := range v.Owners {
		w.writeRow(o.Address, string(o.State), numberOrDash(o.Weight), fmt.Sprint(o.Count), fmt.Sprint(o.MayServe),
			orDash(clipRanges(o.Shards)))
	}
	if len(v.Moves) > 0 {
		w.writeLine("")
		w.writeRow("FROM", "TO", "COUNT", "SINCE", "STATE", "SHARDS")
		for _, m := range v.Moves {
			how := "done"
			if !m.Done {
				how = "waits for " + m.WaitsFor
			}
			w.writeRow(m.From, m.To, fmt.Sprint(m.Count), fmt.Sprint(m.Since), how, clipRanges(m.Shards))
		}
	}
	return w.flush()
}

// PrintPreview writes the actions that the planner would take.
func PrintPreview(out io.Writer, f shardview.Preview, asJSON bool) error {
	if asJSON {
		return printJSON(out, f)
	}
	w := &tableWriter{out: out}
	if f.Generation == 0 {
		w.writeLine("%d shards, no map yet", f.Count)
	} else {
		w.writeLine("%d shards, map generation %d", f.Count, f.Generation)
	}
	if f.OpenMoves > 0 {
		w.writeLine("moves that are open, and left alone: %d", f.OpenMoves)
	}
	if f.Remark != "" {
		w.writeLine("%s", f.Remark)
	} else if len(f.Steps) == 0 {
		w.writeLine("nothing would move")
	}
	for _, s := range f.Steps {
		when := "at once"
		if s.AfterSeconds > 0 {
			when = fmt.Sprintf("after %gs", s.AfterSeconds)
		}
		w.writeLine("")
		w.writeLine("%s: %s", when, describeReasons(s))
		w.writeRow("WHY", "FROM", "TO", "COUNT", "SHARDS")
		for _, t := range s.Transfers {
			w.writeRow(string(t.Reason), orDash(t.From), t.To, fmt.Sprint(t.Count), clipRanges(t.Shards))
		}
	}
	if len(f.Nodes) > 0 {
		w.writeLine("")
		w.writeRow("NODE", "NOW", "THEN")
		for _, n := range f.Nodes {
			w.writeRow(n.Address, fmt.Sprint(n.Now), fmt.Sprint(n.Then))
		}
	}
	return w.flush()
}

// describeReasons describes how many shards move, and why.
func describeReasons(s shardview.PlanStep) string {
	var parts []string
	for _, part := range []struct {
		count int
		why   string
	}{{s.Assigned, "assigned (no live node has them)"}, {s.Drained, "drained (their owner leaves or gets none)"},
		{s.Rebalanced,
			"rebalanced (for an even load)"}} {
		if part.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.count, part.why))
		}
	}
	return strings.Join(parts, ", ")
}

// clipRanges cuts off ranges that would make a row too wide, and adds their number.
func clipRanges(ranges string) string {
	if len(ranges) <= maxRangesLength {
		return ranges
	}
	at := strings.LastIndexByte(ranges[:maxRangesLength], ',')
	return fmt.Sprintf("%s and %d more", ranges[:at], strings.Count(ranges[at:], ","))
}
