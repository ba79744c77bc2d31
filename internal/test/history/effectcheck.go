package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// checkEffects compares the answers that callers got about each effect with the ledger.
func checkEffects(h History) []Finding {
	attempts := map[string][]Attempt{}
	for _, a := range h.Attempts {
		attempts[a.Name] = append(attempts[a.Name], a)
	}
	entered := validEntries(h.Effects)
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(attempts)) {
		out = append(out, checkEffect(name, attempts[name], entered[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(entered)) {
		if len(attempts[name]) == 0 {
			out = append(out, Finding{Kind: Doubled, Subject: Effect(name), From: entered[name][0].At, To: entered[name][0].At,
				Text: fmt.Sprintf("effect %q took place, and nobody who recorded it tried it", name)})
		}
	}
	return out
}

// checkEffect judges one effect. An effect of unknown outcome may be tried again only after the ledger was closed to
// that attempt without having it. Two entries of an effect are therefore wrong, whatever its callers were
// answered.
func checkEffect(name string, attempts []Attempt, entered []LedgerEntry) (out []Finding) {
	slices.SortFunc(attempts, func(a, b Attempt) int { return cmp.Compare(a.Call, b.Call) })
	wrong := func(k Kind, from, to Instant, format string, args ...any) {
		out = append(out, Finding{Kind: k, Subject: Effect(name), From: from, To: max(from, to),
			Text: fmt.Sprintf("effect %q: ", name) + fmt.Sprintf(format, args...)})
	}
	unknown := map[int64]bool{} // tokens with an answer of unknown
	ran := map[int64]Attempt{}
	by := map[string]Attempt{} // by the value that the attempt writes
	for _, a := range attempts {
		by[fmt.Sprintf("%s#%d", a.Process, a.ID)] = a
		if a.Answer == AnswerUnknown {
			unknown[a.Of] = true
		}
		if a.Began == 0 {
			continue
		}
		if other, again := ran[a.Token]; again {
			wrong(Token, other.Began, a.Began, "two attempts ran by one token: %v, and %v", other, a)
		}
		ran[a.Token] = a
	}
	at := map[int64]LedgerEntry{}
	for _, e := range entered {
		at[e.Token] = e
		a := by[e.Value]
		if (a.Answer == AnswerFailed || a.Answer == AnswerNotRun) && !unknown[e.Token] {
			wrong(Unreported, a.Call, e.At, "it took place by token %d, though %v", e.Token, a)
		}
	}
	if n := len(entered); n > 1 {
		first, last := entered[0], entered[n-1]
		wrong(Doubled, first.At, last.At, "it took place %d times: by token %d (%s) and by token %d (%s)",
			n, first.Token, first.Process, last.Token, last.Process)
	}
	for _, a := range attempts {
		if a.Answer != AnswerDone {
			continue
		}
		switch e, took := at[a.Of]; {
		case !took:
			wrong(Lost, a.Call, a.Return, "%v, and that did not take place", a)
		case e.Value != a.Value:
			wrong(Lost, a.Call, a.Return, "%v, but %q was returned", a, e.Value)
		}
	}
	return out
}
