package operator

import (
	"fmt"
	"io"
	"strings"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/sharding/shardview"
)

// widest limits the length of a list of ranges in a table. JSON has all of it.
const widest = 40

// PrintShards writes the owners of all shards, and the moves.
func PrintShards(out io.Writer, v shard.Table, asJSON bool) error {
	if asJSON {
		return printJSON(out, v)
	}
	w := &table{out: out}
	w.line("shards    %d, of which %d may be served", v.Count, v.MayServe())
	w.line("map       generation %d", v.Generation)
	w.line("balance   %d to %d an owner", v.Balance.Least, v.Balance.Most)
	w.line("moves     %d open", v.OpenMoves)
	if v.Unowned != "" {
		w.line("unowned   %s", clip(v.Unowned))
	}
	w.line("")
	w.row("OWNER", "STATE", "WEIGHT", "COUNT", "MAY SERVE", "SHARDS")
	for _, o := range v.Owners {
		w.row(o.Address, string(o.State), numberOrDash(o.Weight), fmt.Sprint(o.Count), fmt.Sprint(o.MayServe),
			orDash(clip(o.Shards)))
	}
	if len(v.Moves) > 0 {
		w.line("")
		w.row("FROM", "TO", "COUNT", "SINCE", "STATE", "SHARDS")
		for _, m := range v.Moves {
			how := "done"
			if !m.Done {
				how = "waits for " + m.WaitsFor
			}
			w.row(m.From, m.To, fmt.Sprint(m.Count), fmt.Sprint(m.Since), how, clip(m.Shards))
		}
	}
	return w.flush()
}

// PrintPreview writes the actions that the planner would take.
func PrintPreview(out io.Writer, f shardview.Preview, asJSON bool) error {
	if asJSON {
		return printJSON(out, f)
	}
	w := &table{out: out}
	if f.Generation == 0 {
		w.line("%d shards, no map yet", f.Count)
	} else {
		w.line("%d shards, map generation %d", f.Count, f.Generation)
	}
	if f.OpenMoves > 0 {
		w.line("moves that are open, and left alone: %d", f.OpenMoves)
	}
	if f.Remark != "" {
		w.line("%s", f.Remark)
	} else if len(f.Steps) == 0 {
		w.line("nothing would move")
	}
	for _, s := range f.Steps {
		when := "at once"
		if s.AfterSeconds > 0 {
			when = fmt.Sprintf("after %gs", s.AfterSeconds)
		}
		w.line("")
		w.line("%s: %s", when, reasons(s))
		w.row("WHY", "FROM", "TO", "COUNT", "SHARDS")
		for _, t := range s.Transfers {
			w.row(string(t.Why), orDash(t.From), t.To, fmt.Sprint(t.Count), clip(t.Shards))
		}
	}
	if len(f.Nodes) > 0 {
		w.line("")
		w.row("NODE", "NOW", "THEN")
		for _, n := range f.Nodes {
			w.row(n.Address, fmt.Sprint(n.Now), fmt.Sprint(n.Then))
		}
	}
	return w.flush()
}

// reasons describes how many shards move, and why.
func reasons(s shardview.Step) string {
	var parts []string
	for _, part := range []struct {
		count int
		why   string
	}{{s.Assigned, "assigned (nobody alive has them)"}, {s.Drained, "drained (their owner leaves or gets none)"},
		{s.Rebalanced,
			"rebalanced (for an even load)"}} {
		if part.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.count, part.why))
		}
	}
	return strings.Join(parts, ", ")
}

// clip cuts off ranges that would make a row too wide, and adds their number.
func clip(ranges string) string {
	if len(ranges) <= widest {
		return ranges
	}
	at := strings.LastIndexByte(ranges[:widest], ',')
	return fmt.Sprintf("%s and %d more", ranges[:at], strings.Count(ranges[at:], ","))
}
