package operator

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster/once"
)

// maxResultShown limits the bytes of a result in text output.
const maxResultShown = 256

// PrintEffects writes a table of the effects. Where says where they were looked for, as in "under /goverse".
func PrintEffects(out io.Writer, where string, all List[Effect], asJSON bool) error {
	switch {
	case asJSON:
		return printJSON(out, all)
	case len(all.Items) == 0 && !all.More:
		_, err := fmt.Fprintf(out, "no effects %s\n", where)
		return err
	}
	w := &tableWriter{out: out}
	w.writeRow("EFFECT", "STATE", "ATTEMPT", "TOKEN", "BY", "SINCE", "NOTES")
	for _, e := range all.Items {
		w.writeRow(quoteIfUnclear(e.Name), string(e.State), fmt.Sprint(e.Attempt), fmt.Sprint(e.Token),
			quoteIfUnclear(e.By), formatTime(e.At),
			orDash(e.notes()))
	}
	all.writeRest(w)
	return w.flush()
}

// PrintEffect writes the state of an effect, and the operator's options.
func PrintEffect(out io.Writer, e Effect, asJSON bool) error {
	if asJSON {
		return printJSON(out, e)
	}
	w := &tableWriter{out: out}
	w.writeLine("effect    %s", quoteIfUnclear(e.Name))
	w.writeLine("key       %s", e.Key)
	w.writeLine("state     %s", e.State)
	if e.State == once.Unreadable {
		w.writeLine("error     %s", quoteUnlessPlain(e.Error))
		return w.flush()
	}
	w.writeLine("attempt   %d by %s", e.Attempt, quoteIfUnclear(e.By))
	w.writeLine("token     %d", e.Token)
	w.writeLine("since     %s", formatTime(e.At))
	if e.Resolved != "" {
		w.writeLine("resolved  by %s", quoteUnlessPlain(e.Resolved))
	}
	switch e.State {
	case once.Done:
		w.writeLine("result    %s", e.result())
	case once.Failed:
		w.writeLine("error     %s", orDash(quoteUnlessPlain(e.Error)))
		w.writeLine("\nThe next one to try it runs it again.")
	case once.Unknown:
		w.writeLine("\nThe attempt has left, and no node knows whether the effect took place. Look where it "+
			"should\nhave, then say so: goversed effects resolve NAME %d --done, or --failed to have it run again.", e.Token)
	}
	return w.flush()
}

// PrintResolved writes the state of an effect after Resolve.
func PrintResolved(out io.Writer, e Effect, asJSON bool) error {
	if asJSON {
		return printJSON(out, e)
	}
	means := "it took place, and is not run again"
	if e.State == once.Failed {
		means = "it did not take place, and the next one to try it runs it again"
	}
	_, err := fmt.Fprintf(out, "%s is %s (attempt %d, token %d): %s\n", quoteIfUnclear(e.Name), e.State, e.Attempt,
		e.Token, means)
	return err
}

// notes returns a single line for any content.
func (e Effect) notes() string {
	switch {
	case e.Error != "":
		return quoteUnlessPlain(truncateText(e.Error))
	case e.Resolved != "":
		return "resolved by " + quoteUnlessPlain(truncateText(e.Resolved))
	}
	return ""
}

func (e Effect) result() string {
	switch {
	case e.Dropped:
		return fmt.Sprintf("not kept: it had %d bytes of at most %d", e.Size, once.MaxValue)
	case e.Size == 0:
		return "empty"
	case e.Size > maxResultShown:
		return fmt.Sprintf("%s... (%d bytes; -o json has all)", quoteIfUnclear(string(e.Result[:maxResultShown])), e.Size)
	}
	return quoteIfUnclear(string(e.Result))
}

// quoteUnlessPlain returns the text, quoted if it is not one line of plain text.
func quoteUnlessPlain(s string) string {
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}

// truncateText cuts off text that would make a row too wide.
func truncateText(s string) string { return truncateTo(s, maxRangesLength) }

// truncateTo cuts off text after so many bytes.
func truncateTo(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

func formatTime(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}
