package history

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// newAttempt is an attempt at the effect "mail" by one process; the value of its effect is "p#<id>".
func newAttempt(id, token int64, answer Answer, of int64) Attempt {
	a := Attempt{Process: "p", ID: id, Node: "a", Name: "mail", Call: ms(10 * int(id)), Return: ms(10*int(id) +
		9), Token: token, Answer: answer, Of: of}
	if token != 0 {
		a.Began = a.Call + 1
	}
	return a
}

func (a Attempt) withAnswer(value string) Attempt {
	a.Value = value
	return a
}

func ledgerEntry(token int64, value string) LedgerEntry {
	return LedgerEntry{Name: "mail", Token: token, Value: value, Process: "p", At: ms(5)}
}

func closedEntry(token int64) LedgerEntry {
	return LedgerEntry{Name: "mail", Token: token, Closed: true}
}

func TestEffects(t *testing.T) {
	for name, c := range map[string]struct {
		attempts []Attempt
		entered  []LedgerEntry
		want     []Kind
	}{
		"once, and answered twice": {[]Attempt{newAttempt(1, 5, AnswerDone, 5).withAnswer("p#1"), newAttempt(2, 0, AnswerDone,
			5).withAnswer("p#1")},
			[]LedgerEntry{ledgerEntry(5, "p#1")}, nil},
		"failed, then done": {[]Attempt{newAttempt(1, 5, AnswerFailed, 0), newAttempt(2, 7, AnswerDone, 7).withAnswer("p#2")},
			[]LedgerEntry{ledgerEntry(7, "p#2")}, nil},
		"died in the middle": {[]Attempt{newAttempt(1, 5, AnswerNone, 0), newAttempt(2, 0, AnswerUnknown, 5)},
			[]LedgerEntry{ledgerEntry(5, "p#1")}, nil},
		"died before, resolved so, and done": {[]Attempt{newAttempt(1, 5, AnswerNone, 0),
			newAttempt(2, 0, AnswerUnknown, 5), newAttempt(3,
				7, AnswerDone, 7).withAnswer("p#3")},
			[]LedgerEntry{closedEntry(5), ledgerEntry(7, "p#3")}, nil},
		"goes on when it was given up": {[]Attempt{newAttempt(1, 5, AnswerUnknown, 5),
			newAttempt(3, 7, AnswerDone, 7).withAnswer("p#3")},
			[]LedgerEntry{closedEntry(5), ledgerEntry(5, "p#1"), ledgerEntry(7, "p#3")}, nil},
		"repeated, though unknown": {[]Attempt{newAttempt(1, 5, AnswerUnknown, 5),
			newAttempt(3, 7, AnswerDone, 7).withAnswer("p#3")},
			[]LedgerEntry{ledgerEntry(5, "p#1"), ledgerEntry(7, "p#3")}, []Kind{Doubled}},
		"repeated, though known to have taken place": {[]Attempt{newAttempt(1, 5, AnswerUnknown, 5),
			newAttempt(3, 7, AnswerDone,
				7).withAnswer("p#3")},
			[]LedgerEntry{ledgerEntry(5, "p#1"), closedEntry(5), ledgerEntry(7, "p#3")}, []Kind{Doubled}},
		"doubled silently": {[]Attempt{newAttempt(1, 5, AnswerDone, 5).withAnswer("p#1"), newAttempt(2, 7, AnswerDone,
			7).withAnswer("p#2")},
			[]LedgerEntry{ledgerEntry(5, "p#1"), ledgerEntry(7, "p#2")}, []Kind{Doubled}},
		"doubled after a crash": {[]Attempt{newAttempt(1, 5, AnswerNone, 0),
			newAttempt(2, 7, AnswerDone, 7).withAnswer("p#2")},
			[]LedgerEntry{ledgerEntry(5, "p#1"), ledgerEntry(7, "p#2")}, []Kind{Doubled}},
		"lost": {[]Attempt{newAttempt(1, 5, AnswerDone, 5).withAnswer("p#1")}, nil, []Kind{Lost}},
		"resolved wrongly": {[]Attempt{newAttempt(1, 5, AnswerUnknown, 5), newAttempt(2, 0, AnswerDone, 5).withAnswer("p#1")},
			[]LedgerEntry{closedEntry(5), ledgerEntry(5, "p#1")}, []Kind{Lost}},
		"another result": {[]Attempt{newAttempt(1, 5, AnswerDone, 5).withAnswer("p#9")}, []LedgerEntry{ledgerEntry(5, "p#1")},
			[]Kind{Lost}},
		"said not to have run": {[]Attempt{newAttempt(1, 5, AnswerNotRun, 0)}, []LedgerEntry{ledgerEntry(5, "p#1")},
			[]Kind{Unreported}},
		"by nobody": {nil, []LedgerEntry{ledgerEntry(5, "p#1")}, []Kind{Doubled}},
		"one token twice": {[]Attempt{newAttempt(1, 5, AnswerFailed, 0), newAttempt(2, 5, AnswerDone, 5).withAnswer("p#2")},
			[]LedgerEntry{ledgerEntry(5, "p#2")}, []Kind{Token}},
	} {
		t.Run(name, func(t *testing.T) {
			h := History{Attempts: c.attempts, Effects: c.entered}
			require.ElementsMatch(t, c.want, kinds(checkEffects(h)))
			if len(c.want) > 0 && c.attempts != nil {
				require.Contains(t, Check(h, Limits{}).String(), string(c.want[0]))
			}
		})
	}
}

func TestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	one, err := OpenLedger(path)
	require.NoError(t, err)
	defer one.Close()
	other, err := OpenLedger(path)
	require.NoError(t, err)
	defer other.Close()

	require.NoError(t, one.Append(LedgerEntry{Name: "mail", Token: 5, Value: "p#1"}))
	e, took, err := other.CloseEffect("mail", 5)
	require.NoError(t, err)
	require.True(t, took)
	require.Equal(t, "p#1", e.Value)
	_, took, err = other.CloseEffect("other", 5)
	require.NoError(t, err)
	require.False(t, took)
	require.NoError(t, one.Append(LedgerEntry{Name: "other", Token: 5, Value: "p#2"}), "too late")
	_, took, err = one.CloseEffect("other", 5)
	require.NoError(t, err)
	require.False(t, took, "for all who ask")
	require.NoError(t, one.Append(LedgerEntry{Name: "other", Token: 7, Value: "p#3"}))

	h, err := ReadFiles(path)
	require.NoError(t, err)
	require.Len(t, h.Effects, 6)
	require.Len(t, validEntries(h.Effects)["other"], 1)
}
