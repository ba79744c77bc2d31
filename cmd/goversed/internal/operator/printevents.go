package operator

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goverse/goverse/cluster/event"
)

// PrintEvent writes one line: an event as a sentence, or as JSON.
func PrintEvent(out io.Writer, e event.Event, asJSON bool) error {
	if asJSON {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s\n", line)
		return err
	}
	_, err := fmt.Fprintf(out, "%s  %-17s  %s\n", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), e.Type,
		strings.Join(eventDetails(e), "  "))
	return err
}

// eventDetails returns the details of an event besides its type.
func eventDetails(e event.Event) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if e.Node != "" {
		add("%s", quoteIfUnclear(e.Node))
	}
	if e.Token != 0 {
		add("token %d", e.Token)
	}
	switch {
	case e.Generation != 0 && e.Reason == event.ReasonFirst:
		add("generation %d, %d assigned", e.Generation, e.Moved)
	case e.Generation != 0:
		add("generation %d, %d moved", e.Generation, e.Moved)
	}
	if e.ClusterFormat != 0 {
		add("format %d", e.ClusterFormat)
	}
	if e.Processor != "" {
		add("%s", quoteUnlessPlain(truncateText(e.Processor)))
	}
	switch {
	case e.Type == event.ProcessorRewound:
		add("from %s to %s", positionText(e.From), positionText(e.Position))
	case e.Position != "":
		add("position %s", quoteUnlessPlain(truncateText(e.Position)))
	}
	if e.By != "" {
		add("by %s", quoteUnlessPlain(truncateText(e.By)))
	}
	if e.Peer != "" {
		add("by %s", quoteIfUnclear(e.Peer))
	}
	if e.Reason != "" && e.Reason != event.ReasonFirst {
		add("%s", quoteUnlessPlain(truncateText(e.Reason)))
	}
	if len(e.Data) > 0 {
		add("%s", printableJSON(e.Data))
	}
	if e.Seconds != 0 {
		add("%s %s", durationLabels[e.Type], time.Duration(e.Seconds*float64(time.Second)).Round(time.Millisecond))
	}
	return out
}

// positionText returns a processor's position as it is shown.
func positionText(at string) string {
	if at == "" {
		return "the beginning"
	}
	return quoteUnlessPlain(truncateText(at))
}

// maxDataShown limits the data of an event in a line of text, in bytes.
const maxDataShown = 200

// printableJSON returns the beginning of data, as it is if a terminal shows all of it, and otherwise quoted.
func printableJSON(data []byte) string {
	s := string(data)
	if len(s) > maxDataShown {
		s = strings.ToValidUTF8(s[:maxDataShown], "") + "..."
	}
	if strings.ContainsFunc(s, func(c rune) bool { return !strconv.IsPrint(c) }) || !utf8.ValidString(s) {
		return strconv.Quote(s)
	}
	return s
}

// durationLabels labels the seconds of an event.
var durationLabels = map[event.Type]string{
	event.LeaderElected:    "no leader for",
	event.ClusterRecovered: "no leader for",
	event.SessionLost:      "without a session for",
}
