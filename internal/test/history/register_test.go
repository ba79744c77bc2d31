package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// correctRegister is a correct register through a change of leadership. One write of unknown outcome was executed,
// another one was not, and a third write was refused.
func correctRegister() (*opLog, []Entry) {
	b := &opLog{}
	first := *b.addWrite("a", 1, 10, 0, 2)
	b.addRead("b", first, 10, 3, 4)
	carried := b.addWrite("a", 1, 11, 5, 0).withoutAnswer()
	b.addRead("b", first, 10, 5, 7)
	b.addRead("c", carried, 11, 6, 9)
	b.addWrite("a", 1, 0, 10, 0).withoutAnswer()
	second := *b.addWrite("b", 2, 15, 12, 13)
	refused := b.addWrite("a", 1, 0, 14, 15)
	refused.Outcome = OutcomeRefused
	b.addRead("a", second, 15, 14, 16)
	return b, []Entry{watchedEntry(first, 10, 3), watchedEntry(carried, 11, 8), watchedEntry(second, 15, 14)}
}

func TestRegisterFindings(t *testing.T) {
	sampled := []Run{idleRun("a", Candidate, 0, 100)}
	for name, test := range map[string]struct {
		plant func(b *opLog, e *[]Entry, h *History)
		found []Kind
	}{
		"clean":                  {func(*opLog, *[]Entry, *History) {}, nil},
		"clean, without a watch": {func(_ *opLog, e *[]Entry, _ *History) { *e = nil }, nil},
		"a stale write": {func(b *opLog, _ *[]Entry, _ *History) {
			b.addWrite("a", 1, 20, 17, 18)
		}, []Kind{Stale}},
		"a stale write of unknown outcome, seen by the watch only": {func(b *opLog, e *[]Entry, _ *History) {
			*e = append(*e, watchedEntry(b.addWrite("a", 1, 20, 17, 0).withoutAnswer(), 20, 19))
		}, []Kind{Stale}},
		"a stale write of unknown outcome, read": {func(b *opLog, _ *[]Entry, _ *History) {
			b.addRead("b", b.addWrite("a", 1, 20, 17, 0).withoutAnswer(), 20, 18, 19)
		}, []Kind{Stale}},
		"a write after a newer term had begun": {func(b *opLog, _ *[]Entry, h *History) {
			b.addWrite("b", 2, 20, 50, 51)
			h.Runs = append(h.Runs, seenOnce("c", 3, newWindow(47, 49)))
		}, []Kind{Stale}},
		"a write begun before a newer term": {func(b *opLog, _ *[]Entry, h *History) {
			b.addWrite("b", 2, 20, 48, 51)
			h.Runs = append(h.Runs, seenOnce("c", 3, newWindow(47, 49)))
		}, nil},
		"a refused write that was carried out": {func(b *opLog, _ *[]Entry, _ *History) {
			w := b.addWrite("b", 2, 0, 17, 18)
			w.Outcome = OutcomeRefused
			b.addRead("b", *w, 20, 19, 20)
		}, []Kind{NotLinearizable}},
		"an accepted write that etcd does not have": {func(b *opLog, e *[]Entry, _ *History) {
			b.addWrite("b", 2, 20, 17, 18)
			*e = append(*e, watchedEntry(*b.addWrite("b", 2, 21, 19, 20), 21, 21))
		}, []Kind{NotLinearizable}},
		"the same, but compacted": {func(b *opLog, e *[]Entry, h *History) {
			b.addWrite("b", 2, 20, 17, 18)
			*e = append(*e, watchedEntry(*b.addWrite("b", 2, 21, 19, 20), 21, 21))
			h.Gaps = []Gap{{Key: "r", From: 16, To: 21}}
		}, nil},
		"carried out twice": {func(b *opLog, e *[]Entry, _ *History) {
			w := *b.addWrite("b", 2, 20, 17, 18)
			*e = append(*e, watchedEntry(w, 20, 19), watchedEntry(w, 21, 20))
		}, []Kind{NotLinearizable}},
		"written by nobody": {func(_ *opLog, e *[]Entry, _ *History) {
			*e = append(*e, Entry{Key: "r", Revision: 20, Token: 2, Value: "who?", At: ms(20)})
		}, []Kind{NotLinearizable}},
		"stored with another token": {func(b *opLog, e *[]Entry, _ *History) {
			w := b.addWrite("b", 2, 0, 17, 0).withoutAnswer()
			w.Token = 3
			*e = append(*e, watchedEntry(w, 20, 19))
		}, []Kind{NotLinearizable}},
		"deleted": {func(_ *opLog, e *[]Entry, _ *History) {
			*e = append(*e, Entry{Key: "r", Revision: 20, Deleted: true, At: ms(20)})
		}, []Kind{NotLinearizable}},
		"two values at one revision": {func(b *opLog, _ *[]Entry, _ *History) {
			b.addRead("c", b.ops[0], 15, 14, 15)
		}, []Kind{NotLinearizable}},
		"an old value read": {func(b *opLog, _ *[]Entry, _ *History) {
			b.addRead("c", b.ops[0], 10, 17, 18)
		}, []Kind{NotLinearizable}},
		"nothing read after a write": {func(b *opLog, _ *[]Entry, _ *History) {
			b.addRead("c", Op{}, 0, 17, 18)
		}, []Kind{NotLinearizable}},
		"read before it was written": {func(b *opLog, _ *[]Entry, _ *History) {
			w := *b.addWrite("b", 2, 20, 30, 31)
			b.addRead("c", w, 20, 17, 18)
		}, []Kind{NotLinearizable}},
		"an unknown one read before it was written": {func(b *opLog, _ *[]Entry, _ *History) {
			w := b.addWrite("b", 2, 20, 30, 0).withoutAnswer()
			b.addRead("c", w, 20, 17, 18)
		}, []Kind{NotLinearizable}},
		"revisions that run backwards": {func(b *opLog, _ *[]Entry, _ *History) {
			b.addWrite("b", 2, 22, 17, 18)
			b.addWrite("b", 2, 21, 19, 20)
		}, []Kind{NotLinearizable}},
		"a stale write and an old value read": {func(b *opLog, _ *[]Entry, _ *History) {
			b.addWrite("a", 1, 20, 17, 18)
			b.addRead("c", b.ops[0], 10, 19, 20)
		}, []Kind{Stale, NotLinearizable}},
	} {
		b, entries := correctRegister()
		h := History{Runs: sampled}
		test.plant(b, &entries, &h)
		h.Ops, h.Entries = b.ops, entries
		v := Check(h, Limits{})
		require.ElementsMatch(t, test.found, kinds(v.Findings), "%s\n%v", name, v)
	}
}

// TestTwoRegisters checks that registers are judged separately.
func TestTwoRegisters(t *testing.T) {
	b, entries := correctRegister()
	for _, op := range b.ops {
		op.Key = "s"
		op.ID += 100
		b.ops = append(b.ops, op)
	}
	h := History{Runs: []Run{idleRun("a", Candidate, 0, 100)}, Ops: b.ops, Entries: entries}
	require.True(t, Check(h, Limits{}).OK())
}

// TestUndecidedIsAFinding checks that a search without a result is reported. Many reads at once, with one
// before them that fits nowhere, have too many orders to try.
func TestUndecidedIsAFinding(t *testing.T) {
	b := &opLog{}
	first := *b.addWrite("a", 1, 10, 0, 1)
	for range 60 {
		b.addRead("b", first, 10, 2, 100)
	}
	second := *b.addWrite("a", 1, 11, 2, 100)
	b.addRead("b", second, 11, 3, 5)
	b.addRead("b", first, 10, 6, 9)
	r := &register{key: "r", ops: b.ops}
	order, found := r.orderStates()
	require.Empty(t, found)
	require.Equal(t, []Kind{Undecided}, kinds(r.checkLinear(order, 50*time.Millisecond)))
}
