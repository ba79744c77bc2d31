package operator

import (
	"fmt"
	"io"
	"strconv"

	"github.com/goverse/goverse/cluster/processor"
)

// PrintProcessors writes a table of the processors found in a store.
func PrintProcessors(out io.Writer, where string, all List[processor.Standing], asJSON bool) error {
	switch {
	case asJSON:
		return printJSON(out, all)
	case len(all.Items) == 0 && !all.More:
		_, err := fmt.Fprintf(out, "no processor %s has a checkpoint\n", where)
		return err
	}
	w := &tableWriter{out: out}
	w.writeRow("PROCESSOR", "STATE", "POSITION", "LAG", "PER SECOND", "PARKED", "LEADER", "TOKEN", "REPORTED", "NOTES")
	for _, s := range all.Items {
		lag, rate, node, at := "-", "-", "-", "-"
		if r := s.Report; r != nil {
			node, at = quoteIfUnclear(truncateText(r.Node)), formatTime(r.At)
			rate = strconv.FormatFloat(r.PerSecond, 'f', 1, 64)
			if r.Lag >= 0 {
				lag = fmt.Sprint(r.Lag)
			}
		}
		w.writeRow(quoteIfUnclear(s.Name), processorState(s), orDash(quotePosition(s.Position)), lag, rate,
			fmt.Sprint(s.Parked), node, fmt.Sprint(s.Token), at, orDash(processorNotes(s)))
	}
	all.writeRest(w)
	return w.flush()
}

// maxNotes limits the bytes of a note in a table.
const maxNotes = 100

// quotePosition returns a position in one word, shortened.
func quotePosition(p processor.Position) string {
	if p == "" {
		return ""
	}
	return quoteIfUnclear(truncateText(string(p)))
}

// processorState returns the state of a processor in one word.
func processorState(s processor.Standing) string {
	switch {
	case s.PauseAcknowledged():
		return "paused"
	case s.Pause.Paused:
		return "pausing" // not acknowledged
	case s.Report == nil || !s.ReportCurrent():
		return "unknown"
	case !s.Report.Leading:
		return "ended"
	case s.Report.Attempts > 0:
		return "failing"
	case s.Replay != "":
		return "replaying"
	}
	return "leading"
}

// processorNotes returns a single line: why the processor is paused, or its last error.
func processorNotes(s processor.Standing) string {
	switch {
	case s.Pause.Paused:
		return quoteUnlessPlain(truncateTo("by "+truncateText(s.Pause.By)+": "+s.Pause.Reason, maxNotes))
	case s.Report != nil && s.Report.Attempts > 0:
		return quoteUnlessPlain(truncateTo(fmt.Sprintf("attempt %d: %s", s.Report.Attempts, s.Report.LastError), maxNotes))
	case s.Report != nil && s.Report.LastError != "":
		return quoteUnlessPlain(truncateTo("at "+formatTime(s.Report.LastErrorAt)+": "+s.Report.LastError, maxNotes))
	}
	return ""
}

// PrintProcessor writes the state of a processor after a request.
func PrintProcessor(out io.Writer, s processor.Standing, asJSON bool) error {
	if asJSON {
		return printJSON(out, s)
	}
	_, err := fmt.Fprintf(out, "%s is %s, position %s, %d events parked\n", quoteIfUnclear(s.Name), processorState(s),
		quoteIfUnclear(string(s.Position)), s.Parked)
	return err
}

// PrintParked writes a table of parked events.
func PrintParked(out io.Writer, all ParkedList, asJSON bool) error {
	switch {
	case asJSON:
		return printJSON(out, all)
	case len(all.Items) == 0:
		_, err := fmt.Fprintln(out, "no event is parked")
		return err
	}
	w := &tableWriter{out: out}
	w.writeRow("POSITION", "ATTEMPTS", "TOKEN", "SINCE", "RETRY", "ERROR")
	for _, p := range all.Items {
		retry := "-"
		if p.Retry {
			retry = "requested"
		}
		w.writeRow(quoteIfUnclear(string(p.Position)), fmt.Sprint(p.Attempts), fmt.Sprint(p.Token), formatTime(p.Time), retry,
			orDash(quoteUnlessPlain(truncateTo(p.Error, maxNotes))))
	}
	if all.More {
		w.writeLine("")
		w.writeLine("there may be more: they follow when those here are retried or dropped")
	}
	return w.flush()
}
