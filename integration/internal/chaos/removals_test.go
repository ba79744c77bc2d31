//go:build unix

package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/history"
)

// A removal for silence is judged by the fault at the member at that time, or by its session; only such a removal is.
func TestRemovals(t *testing.T) {
	const seen = history.Instant(time.Minute)
	shown := &state.Snapshot{}
	for incarnation, removed := range map[int64]bool{1: true, 2: true, 3: true, 4: false, 5: true} {
		shown.Accusations = append(shown.Accusations, &state.Accusation{Address: "node",
			AccusationRecord: state.AccusationRecord{Incarnation: incarnation, Removed: removed}})
	}
	r := newRemovals()
	r.allow(1, "stopped")
	r.allow(2, "stopped")
	r.allow(3, "stopped")
	r.forbid(3) // it survived
	r.allow(5, "cut off")
	byFault, err := r.judge(nil)
	require.NoError(t, err)
	require.Empty(t, byFault, "none was removed so far")
	r.observe(shown, seen)
	r.observe(shown, 2*seen)
	byFault, err = r.judge(nil)
	require.Equal(t, map[string]int{"stopped": 2, "cut off": 1}, byFault)
	const alive = "node, incarnation 3, was removed for its silence though it lived and reached etcd"
	require.EqualError(t, err, alive)

	run := history.Run{NodeLife: history.NodeLife{Node: "node"}, State: history.NoSession}
	run.First.Before, run.Last.After = seen.Add(-500*time.Millisecond), seen.Add(time.Second)
	_, err = r.judge([]history.Run{run})
	require.EqualError(t, err, alive, "it lost its session by the removal")
	run.First.Before = seen.Add(-1500 * time.Millisecond)
	_, err = r.judge([]history.Run{run})
	require.NoError(t, err, "it had given it up")
	run.State = history.Candidate
	_, err = r.judge([]history.Run{run})
	require.EqualError(t, err, alive)
}
