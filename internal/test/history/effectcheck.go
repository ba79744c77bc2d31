package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// effects judges what callers were answered of each effect by what stands in the ledger.
func effects(h History) []Finding {
	attempts := map[string][]Attempt{}
	for _, a := range h.Attempts {
		attempts[a.Name] = append(attempts[a.Name], a)
	}
	entered := standing(h.Effects)
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(attempts)) {
		out = append(out, effect(name, attempts[name], entered[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(entered)) {
		if len(attempts[name]) == 0 {
			out = append(out, Finding{Kind: Doubled, Subject: Effect(name), From: entered[name][0].At, To: entered[name][0].At,
				Text: fmt.Sprintf("effect %q took place, and nobody who recorded it tried it", name)})
		}
	}
	return out
}

// effect judges one effect. One that is unknown may be tried again when the ledger was shut for
// it and did not have it; so none can rightly stand there twice, whatever was reported.
func effect(name string, attempts []Attempt, entered []Entered) (out []Finding) {
	slices.SortFunc(attempts, func(a, b Attempt) int { return cmp.Compare(a.Call, b.Call) })
	wrong := func(k Kind, from, to Instant, format string, args ...any) {
		out = append(out, Finding{Kind: k, Subject: Effect(name), From: from, To: max(from, to),
			Text: fmt.Sprintf("effect %q: ", name) + fmt.Sprintf(format, args...)})
	}
	unknown := map[int64]bool{} // tokens that some caller was answered
	ran := map[int64]Attempt{}
	by := map[string]Attempt{} // the attempt that made a value
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
	at := map[int64]Entered{}
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
