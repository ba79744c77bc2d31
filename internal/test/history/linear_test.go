package history

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawHistory returns a true execution. Clients do one operation after the other, and each takes place at an instant
// between its call and its return. Tokens grow now and then. Some writes are delayed and refused. Some are not
// answered, and some of these are executed. With watched, the history includes etcd's own.
func drawHistory(r *rand.Rand, clients int, length Instant, watched bool) (h History) {
	type due struct {
		at Instant // when it takes place
		op int     // index in the book
	}
	var later []due
	b := &opLog{}
	for c := range clients {
		node := string(rune('a' + c))
		for at := drawUpTo(r, ms(20)); at < length; {
			slow := ms(3)
			if r.IntN(50) == 0 {
				slow = ms(300) // the process or the network was paused
			}
			call := at
			when := call + drawUpTo(r, slow)
			ret := when + drawUpTo(r, slow)
			op := b.addOp(node, 0, 0)
			op.Call, op.Return = call, ret
			if op.Write = r.IntN(2) == 0; op.Write {
				op.Value = fmt.Sprint("v", op.ID)
			}
			later = append(later, due{when, len(b.ops) - 1})
			at = ret + drawUpTo(r, ms(10))
		}
	}
	slices.SortFunc(later, func(x, y due) int { return cmp.Compare(x.at, y.at) })
	revision, token, content := int64(100), int64(1), Op{}
	for _, d := range later {
		op := &b.ops[d.op]
		switch {
		case !op.Write:
			op.Token, op.Value, op.Revision = content.Token, content.Value, content.Revision
			continue
		case r.IntN(40) == 0:
			token += 1 + r.Int64N(3)
		}
		op.Token = token
		if r.IntN(10) == 0 {
			op.Token, op.Outcome = token-1, OutcomeRefused // of the term before
			continue
		}
		carriedOut := true
		if r.IntN(20) == 0 {
			op.Outcome = OutcomeUnknown
			carriedOut = r.IntN(2) == 0
		}
		if carriedOut {
			revision += 1 + r.Int64N(3)
			content = *op
			content.Revision = revision
			if op.Outcome == OutcomeAccepted {
				op.Revision = revision
			}
			if watched {
				e := watchedEntry(*op, revision, 0)
				e.At = d.at + drawUpTo(r, ms(5))
				h.Entries = append(h.Entries, e)
			}
		}
		if op.Outcome == OutcomeUnknown {
			op.Return = 0
		}
	}
	h.Ops = b.ops
	return h
}

// hasInversion reports whether some operation saw or wrote an older state than another one that had returned
// before its call. With a revision for each operation, a register can have no other error. It compares every
// pair.
func hasInversion(ops []observedOp) bool {
	for _, x := range ops {
		for _, y := range ops {
			if x.ret < y.call && (y.revision < x.revision || y.revision == x.revision && y.op.Write) {
				return true
			}
		}
	}
	return false
}

func TestTrueExecutionsAreLinearizable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rapidSource(t)
		h := drawHistory(r, 1+r.IntN(4), ms(2000), r.IntN(2) == 0)
		h.Runs = []Run{idleRun("a", Candidate, 0, 1)}
		if v := Check(h, Limits{}); !v.OK() {
			t.Fatalf("%v", v)
		}
	})
}

// TestSearchAgreesWithEveryPair checks that the search agrees with the comparison of every pair, on altered
// executions that may still be right.
func TestSearchAgreesWithEveryPair(t *testing.T) {
	wrong, right := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r := rapidSource(t)
		h := drawHistory(r, 1+r.IntN(4), ms(1000), r.IntN(2) == 0)
		if r.IntN(4) > 0 {
			corruptOps(r, h.Ops)
		}
		for _, reg := range registersOf(h) {
			order, found := reg.orderStates()
			if len(found) > 0 {
				return // another kind of error, which the search does not cover
			}
			ops := reg.effectiveOps(order)
			for _, s := range ops {
				require.LessOrEqual(t, s.call, s.ret, "an operation that ends before it begins is none")
			}
			pairs := hasInversion(ops)
			searched := len(reg.checkLinear(order, 20*time.Second)) > 0
			if pairs != searched {
				t.Fatalf("every pair says %t, the search %t", !pairs, !searched)
			}
			if pairs {
				wrong++
			} else {
				right++
			}
		}
	})
	t.Logf("%d right, %d wrong", right, wrong)
	require.Positive(t, wrong)
	require.Positive(t, right)
}

// corruptOps gives a read the answer of another one, or moves an operation in time.
func corruptOps(r *rand.Rand, ops []Op) {
	if len(ops) < 2 {
		return
	}
	x, y := &ops[r.IntN(len(ops))], &ops[r.IntN(len(ops))]
	if !x.Write && !y.Write {
		x.Token, x.Value, x.Revision = y.Token, y.Value, y.Revision
		return
	}
	d := drawUpTo(r, ms(20)) - ms(10)
	x.Call += d
	if x.Return != 0 {
		x.Return += d
	}
}
