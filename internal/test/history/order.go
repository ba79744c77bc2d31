package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// register holds the records of one register.
type register struct {
	key     string
	subject Subject
	ops     []Op
	entries []Entry
	gaps    []Gap
}

// registersOf returns all registers, ordered by key.
func registersOf(h History) []*register {
	of := map[string]*register{}
	at := func(key string) *register {
		if of[key] == nil {
			of[key] = &register{key: key}
		}
		return of[key]
	}
	for _, op := range h.Ops {
		r := at(op.Key)
		r.subject, r.ops = op.Subject, append(r.ops, op)
	}
	for _, e := range h.Entries {
		r := at(e.Key)
		r.subject, r.entries = e.Subject, append(r.entries, e)
	}
	for _, g := range h.Gaps {
		r := at(g.Key)
		r.gaps = append(r.gaps, g)
	}
	out := slices.Collect(maps.Values(of))
	slices.SortFunc(out, func(a, b *register) int { return cmp.Compare(a.key, b.key) })
	return out
}

// checkWrites judges the register against the terms of its writers. It first checks the order that etcd itself gave
// to the writes. If that is sound, it checks whether the answers that clients got agree with it.
func (r *register) checkWrites(terms []Term) []Finding {
	order, found := r.orderStates()
	found = append(found, r.findLostWrites(order)...)
	sound := len(found) == 0
	found = append(found, r.findStaleWrites(order, terms)...)
	if sound {
		found = append(found, r.checkLinear(order, searchTimeout)...)
	}
	for i := range found {
		found[i].Subject = r.subject
	}
	return found
}

// storedState is one state of a register with the write that made it.
type storedState struct {
	Entry
	by Op
}

// orderStates combines the events of the watch with the answers to clients into the states of the register by
// revision. Contradictions are findings.
func (r *register) orderStates() ([]storedState, []Finding) {
	writes := map[string]Op{} // by value
	at := map[int64]Entry{}   // by revision
	var found []Finding
	wrong := func(from, to Instant, ops []Op, format string, args ...any) {
		found = append(found, Finding{Kind: NotLinearizable, From: from, To: to, Ops: ops,
			Text: fmt.Sprintf("register %s: ", r.key) + fmt.Sprintf(format, args...)})
	}
	for _, e := range r.entries {
		at[e.Revision] = e
	}
	for _, op := range r.ops {
		if op.Write {
			writes[op.Value] = op
		}
		if op.Outcome != OutcomeAccepted || op.Revision == 0 {
			continue
		}
		e, known := at[op.Revision]
		if !known {
			at[op.Revision] = Entry{Key: op.Key, Subject: op.Subject, Revision: op.Revision, Token: op.Token, Value: op.Value,
				At: op.Return}
		} else if e.Value != op.Value || e.Token != op.Token {
			wrong(op.Call, op.Return, []Op{op}, "%v, but at revision %d stands %q by %s %d", op, op.Revision, e.Value,
				r.subject.tokenName(), e.Token)
		}
	}
	var out []storedState
	first := map[string]int64{} // revision by value
	for _, revision := range slices.Sorted(maps.Keys(at)) {
		e := at[revision]
		op, known := writes[e.Value]
		switch before, again := first[e.Value]; {
		case e.Deleted:
			wrong(e.At, e.At, nil, "deleted at revision %d, by nobody who recorded it", revision)
			continue
		case !known || op.Token != e.Token:
			wrong(e.At, e.At, nil, "%q by %s %d at revision %d was written by nobody who recorded it", e.Value,
				r.subject.tokenName(), e.Token, revision)
			continue
		case again:
			wrong(op.Call, e.At, []Op{op}, "%v, yet it stands at revisions %d and %d", op, before, revision)
		case op.Outcome == OutcomeRefused:
			wrong(op.Call, e.At, []Op{op}, "%v, yet it stands at revision %d", op, revision)
		}
		first[e.Value] = revision
		out = append(out, storedState{Entry: e, by: op})
	}
	return out, found
}

// findLostWrites finds accepted writes that are missing in etcd's history although the watch saw revisions before and
// after them.
func (r *register) findLostWrites(order []storedState) []Finding {
	if len(r.entries) == 0 {
		return nil
	}
	seen := map[int64]bool{}
	first, last := r.entries[0].Revision, r.entries[0].Revision
	for _, e := range r.entries {
		seen[e.Revision] = true
		first, last = min(first, e.Revision), max(last, e.Revision)
	}
	var out []Finding
	for _, s := range order {
		if s.Revision < first || s.Revision > last || seen[s.Revision] ||
			slices.ContainsFunc(r.gaps, func(g Gap) bool { return g.From <= s.Revision && s.Revision < g.To }) {
			continue
		}
		out = append(out, Finding{Kind: NotLinearizable, From: s.by.Call, To: s.At, Ops: []Op{s.by},
			Text: fmt.Sprintf("register %s: %v, but etcd's history has nothing at revision %d", r.key, s.by, s.Revision)})
	}
	return out
}

// findStaleWrites finds accepted writes of lost terms. These are writes that follow one with a greater token in etcd's
// own order, and writes called after a term with a greater token had certainly begun. The terms are in the
// order of Begun.
func (r *register) findStaleWrites(order []storedState, terms []Term) []Finding {
	var out []Finding
	var newest storedState // the write with the greatest token so far
	for _, s := range order {
		f := Finding{Kind: Stale, From: s.by.Call, To: s.At, Ops: []Op{s.by}}
		if s.Token < newest.Token {
			f.Ops = []Op{newest.by, s.by}
			f.Text = fmt.Sprintf("register %s: stale write at revision %d: %v, after %v", r.key, s.Revision, s.by, newest.by)
			out = append(out, f)
			continue
		}
		newest = s
		for i := range terms {
			t := &terms[i]
			if t.Begun() >= s.by.Call {
				break
			}
			if t.Token > s.Token {
				f.Terms = []Term{*t}
				f.Text = fmt.Sprintf("register %s: stale write at revision %d: %v, when there was %v", r.key, s.Revision, s.by, *t)
				out = append(out, f)
				break
			}
		}
	}
	return out
}
