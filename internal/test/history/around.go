package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// margin is the time before and after a finding that is reported with it.
	margin = 250 * time.Millisecond
	// aroundLines limits the lines reported around one finding: half from the start, half from the end.
	aroundLines = 120
	// wideWindow is the length from which a sample's window is reported.
	wideWindow = 5 * time.Millisecond
)

// firstInstant returns the first recorded instant.
func (h History) firstInstant() Instant {
	first := forever
	for _, p := range h.Processes {
		first = min(first, p.At)
	}
	for _, r := range h.Runs {
		first = min(first, r.First.Before)
	}
	for _, m := range h.Marks {
		first = min(first, m.From)
	}
	for _, op := range h.Ops {
		first = min(first, op.Call)
	}
	for _, e := range h.Entries {
		first = min(first, e.At)
	}
	for _, a := range h.Attempts {
		first = min(first, a.Call)
	}
	for _, c := range h.Calls {
		first = min(first, c.Call)
	}
	return first
}

// recordsAround returns the records around a finding in time order: those about its subject and those about
// leadership.
func (h History) recordsAround(f Finding) []string {
	from, to, start := f.From.Add(-margin), f.To.Add(margin), h.firstInstant()
	type event struct {
		at   Instant
		text string
	}
	var events []event
	tell := func(at, end Instant, format string, args ...any) {
		if at <= to && end >= from {
			events = append(events, event{at, fmt.Sprintf("%12s  ", at.since(start)) + fmt.Sprintf(format, args...)})
		}
	}
	for _, r := range h.Runs {
		if r.Subject == Leadership || r.Subject == f.Subject {
			tell(r.First.Before, r.Last.After, "%v %s", r.NodeLife, r.describe(start))
		}
	}
	for _, m := range h.Marks {
		name := m.Node
		if name == "" {
			name = "all nodes"
		}
		tell(m.From, m.endInstant(), "%s: mark: %s", name, m.describe(start))
	}
	for _, op := range h.Ops {
		end := op.Return
		if end == 0 {
			end = op.Call
		}
		if op.Subject != f.Subject {
			continue
		}
		if f.Kind == NotLinearizable || op.Write && f.Kind != Silent {
			tell(op.Call, end, "%s (%s): %v, returned %s", op.Node, op.Process, op, end.since(start))
		}
	}
	for _, e := range h.Entries {
		if e.Subject == f.Subject && f.Kind != Silent {
			tell(e.At, e.At, "etcd: %s at revision %d: %q by %s %d", e.Key, e.Revision, e.Value, e.Subject.tokenName(), e.Token)
		}
	}
	for _, a := range h.Attempts {
		if Effect(a.Name) == f.Subject {
			tell(a.Call, max(a.Call, a.Return), "%v, returned %s", a, a.Return.since(start))
		}
	}
	for _, c := range h.Calls {
		if c.Object == f.Subject {
			tell(c.Call, max(c.Call, c.Return), "%s: %v, returned %s", c.Process, c, c.Return.since(start))
		}
	}
	for _, e := range h.Effects {
		if Effect(e.Name) == f.Subject {
			tell(e.At, e.At, "ledger: token %d, value %q, by %s, closed %t", e.Token, e.Value, e.Process, e.Closed)
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var out []string
	for i, e := range events {
		switch skip := len(events) - aroundLines; {
		case skip <= 0 || i < aroundLines/2 || i >= len(events)-aroundLines/2:
			out = append(out, e.text)
		case i == aroundLines/2:
			out = append(out, fmt.Sprintf("… %d lines more …", skip))
		}
	}
	return out
}

func (w NodeLife) String() string {
	if w.Life > 0 {
		return fmt.Sprintf("%s#%d (%s):", w.Node, w.Life, w.Process)
	}
	return fmt.Sprintf("%s (%s):", w.Node, w.Process)
}

// describe describes a run without its start.
func (r Run) describe(start Instant) string {
	s := r.describeClaim()
	if r.State != Unknown {
		s += fmt.Sprintf(", %s", r.State)
	}
	s += fmt.Sprintf("; sampled %d times, last at %s", r.Count, r.Last.Before.since(start))
	for _, w := range []Window{r.First, r.Last} {
		if d := w.After.Sub(w.Before); d > wideWindow {
			s += fmt.Sprintf(", asked at some instant within %v from %s", d.Round(time.Millisecond), w.Before.since(start))
		}
		if r.Count == 1 {
			break
		}
	}
	return s
}

func (r Run) describeClaim() string {
	switch {
	case r.Subject == Leadership && r.Leads:
		return fmt.Sprintf("leads by token %d", r.Token)
	case r.Subject == Leadership:
		return "does not lead"
	case r.Subject.hasKind(ofLock) && r.Leads && r.Shared:
		return fmt.Sprintf("shares %v by token %d", r.Subject, r.Token)
	case r.Subject.hasKind(ofLock) && r.Leads:
		return fmt.Sprintf("holds %v by token %d", r.Subject, r.Token)
	case r.Subject.hasKind(ofLock):
		return fmt.Sprintf("does not hold %v", r.Subject)
	case r.Subject.hasKind(ofObject) && r.Leads:
		return fmt.Sprintf("has %v active under epoch %d", r.Subject, r.Token)
	case r.Subject.hasKind(ofObject):
		return fmt.Sprintf("does not have %v active", r.Subject)
	case r.Leads:
		return fmt.Sprintf("serves %v under epoch %d", r.Subject, r.Token) + onSession(r.Session)
	}
	return fmt.Sprintf("does not serve %v", r.Subject)
}

// describe describes a mark without its start.
func (m Mark) describe(start Instant) string {
	s := m.Name
	if m.Text != "" {
		s += " (" + m.Text + ")"
	}
	if m.To == 0 {
		return s + ", from " + m.From.since(start) + " on"
	}
	return s + ", " + m.From.since(start) + " to " + m.To.since(start)
}
