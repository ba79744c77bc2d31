package host

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Random turns of an object begin and end, in a shard that admits turns from time to time. At most one has the object
// to itself, each turn that needs it begins in the order of arrival, no turn waits that may begin, and the counts are
// those of the queue.
func TestTurnsOfAnObject(t *testing.T) {
	methods := []*Method{{Name: "alone"}, {Name: "concurrent", concurrent: true}, {Name: "reentrant", reentrant: true}}
	for seed := range uint64(100) {
		var q turnQueue
		var id, last uint64
		var running []*turn
		arrivals := map[*turn]uint64{}
		r := rand.New(rand.NewPCG(seed, 1))
		served := true // the shard admits turns
		begin := func(next *turn) {
			busy := slices.IndexFunc(running, func(other *turn) bool { return other.exclusive })
			awaited := busy >= 0 && slices.Contains(next.chain, running[busy].id)
			id++
			q.beginTurn(next, id)
			require.Equal(t, next.method == methods[0] || next.method == methods[2] && !awaited, next.exclusive)
			if next.exclusive {
				require.Negative(t, busy, "seed %d", seed)
				require.Greater(t, arrivals[next], last, "seed %d", seed)
				last = arrivals[next]
			}
			running = append(running, next)
		}
		for arrival := range uint64(200) {
			if r.IntN(10) == 0 {
				served = !served
			}
			if r.IntN(2) == 0 || len(running) == 0 {
				added := &turn{method: methods[r.IntN(len(methods))]}
				arrivals[added] = arrival + 1
				if len(running) > 0 && r.IntN(2) == 0 {
					added.chain = []uint64{running[r.IntN(len(running))].id}
				}
				if (q.first == nil || !q.needsExclusive(added)) && served && q.mayBegin(added, false) {
					begin(added)
				} else {
					q.pushTurn(added)
				}
			} else {
				i := r.IntN(len(running))
				q.endTurn(running[i])
				running = slices.Delete(running, i, i+1)
			}
			for waits := q.first; waits != nil && !q.isBlocked(); {
				next := waits.next
				if served && q.mayBegin(waits, false) {
					q.removeTurn(waits)
					begin(waits)
				}
				waits = next
			}
			checkQueue(t, &q, running, served)
		}
	}
}

func checkQueue(t *testing.T, q *turnQueue, running []*turn, served bool) {
	var queued, beside, chains int32
	for waits := q.first; waits != nil; waits = waits.next {
		require.False(t, served && q.mayBegin(waits, false), "it waits although it may begin")
		require.Equal(t, waits.next == nil, waits == q.last)
		queued++
		if waits.beside {
			beside++
		}
		if len(waits.chain) > 0 {
			chains++
		}
	}
	require.Equal(t, []int32{queued, beside, chains}, []int32{q.queued, q.queuedBeside, q.queuedChains})
	alone := 0
	for _, runs := range running {
		if runs.exclusive {
			alone++
			require.Equal(t, q.exclusive, runs.id)
		}
	}
	require.Equal(t, alone > 0, q.exclusive != 0)
	require.EqualValues(t, len(running)-alone, q.beside)
	require.Equal(t, len(running) > 0, q.isRunning())
}

// An object that is to be dropped begins only turns for which a running one may wait.
func TestTurnsOfAnObjectThatIsDropped(t *testing.T) {
	concurrent, alone := &Method{concurrent: true}, &Method{}
	var q turnQueue
	back := &turn{method: concurrent, chain: []uint64{7}}
	require.False(t, q.mayBegin(back, true), "no turn runs that may wait for it")
	q.beginTurn(&turn{method: alone}, 7)
	require.True(t, q.mayBegin(back, true))
	require.False(t, q.mayBegin(&turn{method: concurrent}, true))
	require.False(t, q.mayBegin(&turn{method: alone}, true))
}
