package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// holdRuns is a hold of a lock by a node: requested at asked, and certainly held between from and to.
func holdRuns(node string, token int64, asked, from, to int) []Run {
	w := NodeLife{Process: "p-" + node, Node: node, Life: int(token)}
	run := func(leads bool, first, last Window) Run {
		r := Run{NodeLife: w, Subject: Lock("it"), Leads: leads, First: first, Last: last, Count: 1}
		if leads {
			r.Token = token
		}
		return r
	}
	return []Run{run(false, newWindow(asked, asked), newWindow(asked, asked)),
		run(true, newWindow(from-1, from), newWindow(to, to+1)), run(false, newWindow(to+1, to+2), newWindow(to+1, to+2))}
}

// shareHold makes it a hold of a shared lock.
func shareHold(runs []Run) []Run {
	for i := range runs {
		runs[i].Shared = true
	}
	return runs
}

func historyOfHolds(holds ...[]Run) (h History) {
	for _, runs := range holds {
		h.Runs = append(h.Runs, runs...)
	}
	return h
}

var exemptRobbery = Limits{Exempt: map[string]time.Duration{LeaseRevoked: time.Second, LockDeleted: time.Second,
	KeyDeleted: time.Second}}

func TestHoldersOneByOne(t *testing.T) {
	v := Check(historyOfHolds(holdRuns("a", 5, 0, 10, 20), holdRuns("b", 7, 5, 25, 40),
		shareHold(holdRuns("c", 9, 6, 45, 60)),
		shareHold(holdRuns("a", 10, 30, 50, 70)),
		holdRuns("b", 12, 60, 75, 80)), Limits{})
	require.True(t, v.OK(), "%v", v)
	require.Equal(t, 1, v.Seen.Locks)
	require.Equal(t, 5, v.Seen.Grants)
	require.Equal(t, 2, v.Seen.Shared)
}

func TestTwoHolders(t *testing.T) {
	for name, h := range map[string]History{
		"exclusive":               historyOfHolds(holdRuns("a", 5, 0, 10, 40), holdRuns("b", 7, 5, 30, 60)),
		"shared beside exclusive": historyOfHolds(holdRuns("a", 5, 0, 10, 40), shareHold(holdRuns("b", 7, 5, 30, 60))),
		"exclusive beside shared": historyOfHolds(shareHold(holdRuns("a", 5, 0, 10, 40)), holdRuns("b", 7, 5, 30, 60)),
		"two of one node":         historyOfHolds(holdRuns("a", 5, 0, 10, 40), holdRuns("a", 7, 5, 30, 60)),
		"of three, two share": historyOfHolds(shareHold(holdRuns("a", 5, 0, 10, 40)),
			shareHold(holdRuns("b", 6, 0, 12, 40)), holdRuns("c", 7, 5, 30,
				60)),
		"a mark at a place behind": {Runs: historyOfHolds(holdRuns("a", 5, 0, 10, 40), holdRuns("b", 7, 5, 30, 60)).Runs,
			Marks: []Mark{newMark("a", KeyDeleted, 25, 26)}},
		"a mark at the newer one": {Runs: historyOfHolds(holdRuns("a", 5, 0, 10, 40), holdRuns("b", 7, 5, 30, 60)).Runs,
			Marks: []Mark{newMark("b", LockDeleted, 25, 26)}},
	} {
		t.Run(name, func(t *testing.T) {
			v := Check(h, exemptRobbery)
			require.NotEmpty(t, v.FindingsOf(Overlap), "%v", v)
			require.NotEmpty(t, v.FindingsOf(NotLinearizable), "%v", v)
			require.Contains(t, v.String(), "two holders of lock it")
		})
	}
}

// TestRobbedHolder checks that the loss of a lock out of band is exempt, and nothing more.
func TestRobbedHolder(t *testing.T) {
	for _, by := range []string{LockDeleted, LeaseRevoked} {
		h := historyOfHolds(holdRuns("a", 5, 0, 10, 40), holdRuns("b", 7, 5, 30, 60))
		h.Marks = []Mark{newMark("a", by, 25, 26)}
		v := Check(h, exemptRobbery)
		require.True(t, v.OK(), "%v", v)
		require.Len(t, v.Exempt, 1)
		require.Equal(t, Instant(v.Exempt[0].Length()), ms(10))
		require.False(t, Check(h, Limits{}).OK(), "nothing is excused unasked")
	}
	long := historyOfHolds(holdRuns("a", 5, 0, 10, 2000), holdRuns("b", 7, 5, 30, 60))
	long.Marks = []Mark{newMark("a", LockDeleted, 25, 26)}
	require.True(t, Check(long, exemptRobbery).OK(), "the other one had it briefly")
	long = historyOfHolds(holdRuns("a", 5, 0, 10, 2000), holdRuns("b", 7, 5, 30, 2000))
	long.Marks = []Mark{newMark("a", LockDeleted, 25, 26)}
	require.NotEmpty(t, Check(long, exemptRobbery).FindingsOf(Overlap), "longer than the bound")
}

// TestRobbedHolderSeenLate checks that the order of tokens is exempt for a holder whose key was deleted right after
// its grant and that claims the lock only once the next holder is done, and nothing more.
func TestRobbedHolderSeenLate(t *testing.T) {
	for name, tt := range map[string]struct {
		mark   Mark
		until  int // the late holder claims the lock
		exempt bool
	}{
		"key deleted":             {newMark("b", LockDeleted, 8, 9), 60, true},
		"lease revoked":           {newMark("b", LeaseRevoked, 8, 9), 60, true},
		"longer than the bound":   {newMark("b", LockDeleted, 8, 9), 2000, false},
		"before its request":      {newMark("b", LockDeleted, 3, 4), 60, false},
		"after it was seen":       {newMark("b", LockDeleted, 40, 41), 60, false},
		"at the other holder":     {newMark("a", LockDeleted, 8, 9), 60, false},
		"in the queue of leaders": {newMark("b", KeyDeleted, 8, 9), 60, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := historyOfHolds(holdRuns("a", 7, 0, 10, 20), holdRuns("b", 5, 5, 30, tt.until))
			h.Marks = []Mark{tt.mark}
			v := Check(h, exemptRobbery)
			require.Equal(t, tt.exempt, len(v.FindingsOf(Token)) == 0, "%v", v)
			if tt.exempt {
				require.True(t, v.OK(), "%v", v)
				require.Len(t, v.Exempt, 1)
				require.Equal(t, tt.mark, *v.Exempt[0].Mark)
			}
		})
	}
}

func TestTokenOfALockGoesBack(t *testing.T) {
	v := Check(historyOfHolds(holdRuns("a", 7, 0, 10, 20), holdRuns("b", 5, 5, 30, 60)), Limits{})
	require.ElementsMatch(t, []Kind{NotLinearizable, Token}, kinds(v.Findings), "%v", v)
	v = Check(historyOfHolds(holdRuns("a", 7, 0, 10, 20), shareHold(holdRuns("b", 5, 5, 30, 60))), Limits{})
	require.NotEmpty(t, v.FindingsOf(Token), "%v", v)
	v = Check(historyOfHolds(shareHold(holdRuns("a", 7, 0, 10, 20)), holdRuns("b", 5, 5, 30, 60)), Limits{})
	require.NotEmpty(t, v.FindingsOf(Token), "%v", v)
	v = Check(historyOfHolds(shareHold(holdRuns("a", 7, 0, 10, 20)), shareHold(holdRuns("b", 5, 5, 30, 60))), Limits{})
	require.True(t, v.OK(), "who shares may hear later than one who came later: %v", v)
}

// addIncrement is an accepted increment on top of another one.
func (b *opLog) addIncrement(node string, on Op, token, revision int64, call, ret int) *Op {
	op := b.addWrite(node, token, revision, call, ret)
	op.Subject, op.Counts, op.Base = Lock("it"), true, on.Value
	op.Value = fmt.Sprintf("v%d=%d", op.ID, counterValue(on.Value)+1)
	return op
}

func TestCounter(t *testing.T) {
	b := &opLog{}
	first := *b.addIncrement("a", Op{}, 5, 10, 0, 1)
	second := *b.addIncrement("a", first, 5, 11, 2, 3)
	lost := b.addIncrement("b", second, 7, 12, 4, 5).withoutAnswer()
	fourth := *b.addIncrement("b", lost, 7, 14, 6, 7) // it was executed, as the next one saw
	refused := b.addIncrement("a", second, 5, 0, 5, 8)
	refused.Outcome = OutcomeRefused
	require.EqualValues(t, 4, counterValue(fourth.Value))
	h := History{Ops: b.ops, Entries: []Entry{watchedEntry(first, 10, 2), watchedEntry(second, 11, 4),
		watchedEntry(lost, 12, 6), watchedEntry(fourth,
			14, 8)}}
	h.Runs = historyOfHolds(holdRuns("a", 5, 0, 1, 3), holdRuns("b", 7, 0, 4, 9)).Runs
	v := Check(h, Limits{})
	require.True(t, v.OK(), "%v", v)
	require.Equal(t, 3, v.Seen.Increments)
	require.Equal(t, 1, v.Seen.Unanswered)
}

// TestLostUpdate checks an increment on top of a value that was overwritten meanwhile: an increment was lost.
func TestLostUpdate(t *testing.T) {
	b := &opLog{}
	first := *b.addIncrement("a", Op{}, 5, 10, 0, 1)
	b.addIncrement("a", first, 5, 11, 2, 6)
	b.addIncrement("b", first, 5, 12, 2, 6)
	v := Check(History{Ops: b.ops, Runs: historyOfHolds(holdRuns("a", 5, 0, 1, 8)).Runs}, Limits{})
	require.Equal(t, []Kind{NotLinearizable}, kinds(v.Findings), "%v", v)
}

// TestStaleIncrement checks that a write by a lost token is found from the values written and from the holds of
// the lock.
func TestStaleIncrement(t *testing.T) {
	b := &opLog{}
	first := *b.addIncrement("b", Op{}, 7, 10, 30, 31)
	b.addIncrement("a", first, 5, 11, 32, 33)
	v := Check(History{Ops: b.ops, Runs: historyOfHolds(holdRuns("a", 5, 0, 10, 20), holdRuns("b", 7, 5, 25, 60)).Runs},
		Limits{})
	require.NotEmpty(t, v.FindingsOf(Stale), "%v", v)

	b = &opLog{}
	b.addIncrement("a", Op{}, 5, 11, 32, 33)
	v = Check(History{Ops: b.ops, Runs: historyOfHolds(holdRuns("a", 5, 0, 10, 20),
		shareHold(holdRuns("b", 7, 5, 25, 60))).Runs}, Limits{})
	require.Equal(t, []Kind{Stale}, kinds(v.Findings), "%v", v)
	require.Contains(t, v.String(), "stale write")
}
