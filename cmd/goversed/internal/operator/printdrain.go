package operator

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	maxBarWidth = 40
	minBarWidth = 8
	eraseLine   = "\r\x1b[K"
)

// DrainProgress shows the progress of a drain. In a terminal it redraws a bar in place; otherwise it writes one
// line at the beginning. It ignores failed writes, because the drain continues. It is not safe for concurrent
// use.
type DrainProgress struct {
	Out     io.Writer
	Address string     // of the node
	Columns func() int // of the terminal; nil: not a terminal

	begun bool
}

// Show displays the progress: left is the number of shards that remain of before.
func (p *DrainProgress) Show(left, before int) {
	switch {
	case p.Columns != nil:
		_, _ = io.WriteString(p.Out, eraseLine+formatBar(p.Address, left, before, p.Columns()))
	case !p.begun:
		_, _ = fmt.Fprintf(p.Out, "draining %s, which has %s\n", p.Address, formatShards(before))
	}
	p.begun = true
}

// End erases the bar.
func (p *DrainProgress) End() {
	if p.begun && p.Columns != nil {
		_, _ = io.WriteString(p.Out, eraseLine)
	}
}

// formatBar returns a line of less than the given columns, because a line that wraps cannot be redrawn.
func formatBar(address string, left, before, columns int) string {
	given := max(before-left, 0)
	head, tail := "draining "+address, fmt.Sprintf("%d of %s left", left, formatShards(before))
	line := head + "  " + tail
	if wide := min(columns-len(line)-5, maxBarWidth); wide >= minBarWidth {
		filled := wide
		if before > 0 {
			filled = wide * given / before
		}
		line = head + "  [" + strings.Repeat("#", filled) + strings.Repeat(".", wide-filled) + "]  " + tail
	}
	return line[:min(len(line), max(columns-1, 0))]
}

// PrintDrained writes the result of a drain, or of its undoing.
func PrintDrained(out io.Writer, d Drained, asJSON bool) error {
	if asJSON {
		return printJSON(out, d)
	}
	var line string
	switch {
	case d.Draining:
		took := time.Duration(d.Seconds * float64(time.Second)).Round(time.Millisecond)
		line = fmt.Sprintf("%s is empty: it gave up %s in %v, and gets none until goversed drain --undo %s, or until it "+
			"starts again",
			d.Address, formatShards(d.Released), took, d.Address)
		if d.Leader {
			line += "; it leads on: goversed resign hands that over"
		}
	case d.Changed:
		line = d.Address + " may have shards again: it gets its share when the load is rebalanced"
	default:
		line = d.Address + " was not draining"
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

func formatShards(shards int) string {
	if shards == 1 {
		return "1 shard"
	}
	return fmt.Sprintf("%d shards", shards)
}
