package operator

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster/once"
)

// mostShown limits the bytes of a result in text output.
const mostShown = 256

// PrintEffects writes a table of the effects found under prefix.
func PrintEffects(out io.Writer, prefix string, all Effects, asJSON bool) error {
	switch {
	case asJSON:
		return printJSON(out, all)
	case len(all.Effects) == 0 && all.After == "":
		_, err := fmt.Fprintf(out, "no effects under %s\n", prefix)
		return err
	}
	w := &table{out: out}
	w.row("EFFECT", "STATE", "ATTEMPT", "TOKEN", "BY", "SINCE", "NOTES")
	for _, e := range all.Effects {
		w.row(shown(e.Name), string(e.State), fmt.Sprint(e.Attempt), fmt.Sprint(e.Token), shown(e.By), since(e.At),
			orDash(e.notes()))
	}
	switch {
	case all.After != "":
		w.line("")
		w.line("the time was up before all were looked at: go on with --after %s", shown(all.After))
	case all.More:
		w.line("")
		w.line("there are more: give the last of these with --after, or a larger --limit")
	}
	return w.flush()
}

// PrintEffect writes the state of an effect, and the operator's options.
func PrintEffect(out io.Writer, e Effect, asJSON bool) error {
	if asJSON {
		return printJSON(out, e)
	}
	w := &table{out: out}
	w.line("effect    %s", shown(e.Name))
	w.line("key       %s", e.Key)
	w.line("state     %s", e.State)
	if e.State == once.Unreadable {
		w.line("error     %s", said(e.Error))
		return w.flush()
	}
	w.line("attempt   %d by %s", e.Attempt, shown(e.By))
	w.line("token     %d", e.Token)
	w.line("since     %s", since(e.At))
	if e.Resolved != "" {
		w.line("resolved  by %s", said(e.Resolved))
	}
	switch e.State {
	case once.Done:
		w.line("result    %s", e.result())
	case once.Failed:
		w.line("error     %s", orDash(said(e.Error)))
		w.line("\nThe next one to try it runs it again.")
	case once.Unknown:
		w.line("\nThe attempt has left, and nobody here knows whether the effect took place. Look where it should\nhave, "+
			"then say so: goversed effects resolve NAME %d --done, or --failed to have it run again.", e.Token)
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
	_, err := fmt.Fprintf(out, "%s is %s (attempt %d, token %d): %s\n", shown(e.Name), e.State, e.Attempt, e.Token, means)
	return err
}

// notes returns a single line for any content.
func (e Effect) notes() string {
	switch {
	case e.Error != "":
		return said(short(e.Error))
	case e.Resolved != "":
		return "resolved by " + said(short(e.Resolved))
	}
	return ""
}

func (e Effect) result() string {
	switch {
	case e.Dropped:
		return fmt.Sprintf("not kept: it had %d bytes of at most %d", e.Size, once.MaxValue)
	case e.Size == 0:
		return "empty"
	case e.Size > mostShown:
		return fmt.Sprintf("%s... (%d bytes; -o json has all)", shown(string(e.Result[:mostShown])), e.Size)
	}
	return shown(string(e.Result))
}

// said returns the text, quoted if it is not one line of plain text.
func said(s string) string {
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}

// short cuts off text that would make a row too wide.
func short(s string) string {
	if len(s) <= widest {
		return s
	}
	return strings.ToValidUTF8(s[:widest], "") + "..."
}

func since(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}
