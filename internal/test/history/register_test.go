package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clean is a correct register through a change of leadership. One write of unknown outcome was executed,
// another one was not, and a third write was refused.
func clean() (*book, []Entry) {
	b := &book{}
	first := *b.write("a", 1, 10, 0, 2)
	b.read("b", first, 10, 3, 4)
	carried := b.write("a", 1, 11, 5, 0).unknown()
	b.read("b", first, 10, 5, 7)
	b.read("c", carried, 11, 6, 9)
	b.write("a", 1, 0, 10, 0).unknown()
	second := *b.write("b", 2, 15, 12, 13)
	refused := b.write("a", 1, 0, 14, 15)
	refused.Outcome = OutcomeRefused
	b.read("a", second, 15, 14, 16)
	return b, []Entry{entry(first, 10, 3), entry(carried, 11, 8), entry(second, 15, 14)}
}

func TestRegisterFindings(t *testing.T) {
	sampled := []Run{no("a", Candidate, 0, 100)}
	for name, test := range map[string]struct {
		plant func(b *book, e *[]Entry, h *History)
		found []Kind
	}{
		"clean":                  {func(*book, *[]Entry, *History) {}, nil},
		"clean, without a watch": {func(_ *book, e *[]Entry, _ *History) { *e = nil }, nil},
		"a stale write": {func(b *book, _ *[]Entry, _ *History) {
			b.write("a", 1, 20, 17, 18)
		}, []Kind{Stale}},
		"a stale write of unknown outcome, seen by the watch only": {func(b *book, e *[]Entry, _ *History) {
			*e = append(*e, entry(b.write("a", 1, 20, 17, 0).unknown(), 20, 19))
		}, []Kind{Stale}},
		"a stale write of unknown outcome, read": {func(b *book, _ *[]Entry, _ *History) {
			b.read("b", b.write("a", 1, 20, 17, 0).unknown(), 20, 18, 19)
		}, []Kind{Stale}},
		"a write after a newer term had begun": {func(b *book, _ *[]Entry, h *History) {
			b.write("b", 2, 20, 50, 51)
			h.Runs = append(h.Runs, seenOnce("c", 3, window(47, 49)))
		}, []Kind{Stale}},
		"a write begun before a newer term": {func(b *book, _ *[]Entry, h *History) {
			b.write("b", 2, 20, 48, 51)
			h.Runs = append(h.Runs, seenOnce("c", 3, window(47, 49)))
		}, nil},
		"a refused write that was carried out": {func(b *book, _ *[]Entry, _ *History) {
			w := b.write("b", 2, 0, 17, 18)
			w.Outcome = OutcomeRefused
			b.read("b", *w, 20, 19, 20)
		}, []Kind{NotLinearizable}},
		"an accepted write that etcd does not have": {func(b *book, e *[]Entry, _ *History) {
			b.write("b", 2, 20, 17, 18)
			*e = append(*e, entry(*b.write("b", 2, 21, 19, 20), 21, 21))
		}, []Kind{NotLinearizable}},
		"the same, but compacted": {func(b *book, e *[]Entry, h *History) {
			b.write("b", 2, 20, 17, 18)
			*e = append(*e, entry(*b.write("b", 2, 21, 19, 20), 21, 21))
			h.Gaps = []Gap{{Key: "r", From: 16, To: 21}}
		}, nil},
		"carried out twice": {func(b *book, e *[]Entry, _ *History) {
			w := *b.write("b", 2, 20, 17, 18)
			*e = append(*e, entry(w, 20, 19), entry(w, 21, 20))
		}, []Kind{NotLinearizable}},
		"written by nobody": {func(_ *book, e *[]Entry, _ *History) {
			*e = append(*e, Entry{Key: "r", Revision: 20, Token: 2, Value: "who?", At: ms(20)})
		}, []Kind{NotLinearizable}},
		"stored with another token": {func(b *book, e *[]Entry, _ *History) {
			w := b.write("b", 2, 0, 17, 0).unknown()
			w.Token = 3
			*e = append(*e, entry(w, 20, 19))
		}, []Kind{NotLinearizable}},
		"deleted": {func(_ *book, e *[]Entry, _ *History) {
			*e = append(*e, Entry{Key: "r", Revision: 20, Deleted: true, At: ms(20)})
		}, []Kind{NotLinearizable}},
		"two values at one revision": {func(b *book, _ *[]Entry, _ *History) {
			b.read("c", b.ops[0], 15, 14, 15)
		}, []Kind{NotLinearizable}},
		"an old value read": {func(b *book, _ *[]Entry, _ *History) {
			b.read("c", b.ops[0], 10, 17, 18)
		}, []Kind{NotLinearizable}},
		"nothing read after a write": {func(b *book, _ *[]Entry, _ *History) {
			b.read("c", Op{}, 0, 17, 18)
		}, []Kind{NotLinearizable}},
		"read before it was written": {func(b *book, _ *[]Entry, _ *History) {
			w := *b.write("b", 2, 20, 30, 31)
			b.read("c", w, 20, 17, 18)
		}, []Kind{NotLinearizable}},
		"an unknown one read before it was written": {func(b *book, _ *[]Entry, _ *History) {
			w := b.write("b", 2, 20, 30, 0).unknown()
			b.read("c", w, 20, 17, 18)
		}, []Kind{NotLinearizable}},
		"revisions that run backwards": {func(b *book, _ *[]Entry, _ *History) {
			b.write("b", 2, 22, 17, 18)
			b.write("b", 2, 21, 19, 20)
		}, []Kind{NotLinearizable}},
		"a stale write and an old value read": {func(b *book, _ *[]Entry, _ *History) {
			b.write("a", 1, 20, 17, 18)
			b.read("c", b.ops[0], 10, 19, 20)
		}, []Kind{Stale, NotLinearizable}},
	} {
		b, entries := clean()
		h := History{Runs: sampled}
		test.plant(b, &entries, &h)
		h.Ops, h.Entries = b.ops, entries
		v := Check(h, Limits{})
		require.ElementsMatch(t, test.found, kinds(v.Findings), "%s\n%v", name, v)
	}
}

// TestTwoRegisters checks that registers are judged separately.
func TestTwoRegisters(t *testing.T) {
	b, entries := clean()
	for _, op := range b.ops {
		op.Key = "s"
		op.ID += 100
		b.ops = append(b.ops, op)
	}
	h := History{Runs: []Run{no("a", Candidate, 0, 100)}, Ops: b.ops, Entries: entries}
	require.True(t, Check(h, Limits{}).OK())
}

// TestUndecidedIsAFinding checks that a search without a result is reported. Many reads at once, with one
// before them that fits nowhere, have too many orders to try.
func TestUndecidedIsAFinding(t *testing.T) {
	b := &book{}
	first := *b.write("a", 1, 10, 0, 1)
	for range 60 {
		b.read("b", first, 10, 2, 100)
	}
	second := *b.write("a", 1, 11, 2, 100)
	b.read("b", second, 11, 3, 5)
	b.read("b", first, 10, 6, 9)
	r := &register{key: "r", ops: b.ops}
	order, found := r.order()
	require.Empty(t, found)
	require.Equal(t, []Kind{Undecided}, kinds(r.linear(order, 50*time.Millisecond)))
}
