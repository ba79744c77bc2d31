package suspicion

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

// marked returns a cluster of n members, i:1 with incarnation i, and marks of their silence.
func marked(n int, marks ...*state.Silence) *state.Snapshot {
	s := &state.Snapshot{Silences: marks}
	for i := range n {
		s.Members = append(s.Members, &state.Member{Address: fmt.Sprintf("%03d:1", i), Incarnation: int64(i + 1)})
	}
	return s
}

func mark(i int, watcher string, ms int64) *state.Silence {
	return &state.Silence{Address: fmt.Sprintf("%03d:1", i), Watcher: watcher,
		SilenceRecord: state.SilenceRecord{Incarnation: int64(i + 1), SilentMS: ms}}
}

func silent(i int, d time.Duration) SilentMember {
	return SilentMember{Address: fmt.Sprintf("%03d:1", i), Incarnation: int64(i + 1), Silent: d}
}

func TestMarks(t *testing.T) {
	two := 2 * time.Second
	mine := mark(1, "me", 2000)
	other := mark(1, "other", 2000)
	long := mark(9, "me", 2000) // of a member that is gone
	for _, c := range []struct {
		name   string
		s      *state.Snapshot
		silent []SilentMember
		want   MarkChanges
	}{
		{"nobody is silent", marked(3), nil, MarkChanges{}},
		{"one is", marked(3), []SilentMember{silent(1, two)}, MarkChanges{Write: []SilentMember{silent(1, two)}}},
		{"which another one has said", marked(3, other), []SilentMember{silent(1, two)},
			MarkChanges{Write: []SilentMember{silent(1, two)}}},
		{"which this one has said", marked(3, mine, other), []SilentMember{silent(1, two)}, MarkChanges{}},
		{"and it has lasted", marked(3, mine), []SilentMember{silent(1, 3*time.Second)},
			MarkChanges{Write: []SilentMember{silent(1, 3*time.Second)}}},
		{"it answers", marked(3, mine, other), nil, MarkChanges{Erase: []*state.Silence{mine}}},
		{"it is gone", marked(3, long), []SilentMember{silent(1, two)},
			MarkChanges{Erase: []*state.Silence{long}, Write: []SilentMember{silent(1, two)}}},
		{"it was never there", marked(3), []SilentMember{silent(7, two)}, MarkChanges{}},
		{"it is another process", marked(3), []SilentMember{{"001:1", 77, two}}, MarkChanges{}},
	} {
		require.Equal(t, c.want, MarkChangesOf(c.s, "me", c.silent), c.name)
	}
}

// If most members stand still, few are marked.
func TestMarksAreBounded(t *testing.T) {
	for n, most := range map[int]int{10: maxMarkedSilent, 200: 10} {
		var marks []*state.Silence
		for i := range most {
			marks = append(marks, mark(i, "other", 2000))
		}
		one := []SilentMember{silent(n-1, 2*time.Second)}
		require.Len(t, MarkChangesOf(marked(n, marks...), "me", one).Write, 1, "the last one that may be")
		marks = append(marks, mark(most, "other", 2000))
		require.Empty(t, MarkChangesOf(marked(n, marks...), "me", one).Write)
		own := mark(most+1, "me", 2000)
		require.Equal(t, []*state.Silence{own}, MarkChangesOf(marked(n, append(marks, own)...), "me", one).Erase,
			"what is over is erased in any case")
	}
}

func TestWatcherKey(t *testing.T) {
	s := marked(30)
	for i, m := range s.Members {
		m.InstanceID = fmt.Sprint("i", i)
	}
	s.Members[29].WatchKey = []byte("key")
	key, member := WatcherKey(s, "000:1", "i29", 2)
	require.True(t, member)
	require.Equal(t, []byte("key"), key)
	_, member = WatcherKey(s, "000:1", "nobody", 2)
	require.False(t, member)
	_, member = WatcherKey(s, "000:1", "", 2)
	require.False(t, member)
	_, member = WatcherKey(s, "000:1", "i0", 2)
	require.False(t, member, "nobody watches itself")
	for i := 1; i < 29; i++ { // of older versions: those that the ring could make watch it
		_, member = WatcherKey(s, "000:1", fmt.Sprint("i", i), 2)
		require.Equal(t, i >= 30-maxTargetFactor*2, member, i)
	}
}

func TestMayArm(t *testing.T) {
	const timeout = 3500 * ms
	require.True(t, MayArm(timeout, 10*time.Second, at(0, 10)))
	require.True(t, MayArm(timeout, 10*time.Second, at(240*ms, 10)))
	require.False(t, MayArm(timeout, 10*time.Second, at(280*ms, 10)), "its reads would come too late")
	require.False(t, MayArm(12*time.Second, 15*time.Second, at(1100*ms, 15)), "it is left to its lease")
	require.False(t, MayArm(timeout, timeout, at(0, 10)), "the lease ends as soon")
	require.False(t, MayArm(0, 10*time.Second, at(0, 10)))
	require.False(t, MayArm(-1, 10*time.Second, at(280*ms, 10)))
}

// The least silence time-out at a distance is near enough, a tenth of a second less is not, and it is less than any TTL
// with which the member is not left to its lease.
func TestLeastSilenceTimeoutAt(t *testing.T) {
	for trip := nearLimit; trip < 2*time.Second; trip += 7 * ms {
		timeout := LeastSilenceTimeoutAt(trip)
		require.Zero(t, timeout%(100*ms))
		require.False(t, TooFarForSilence(trip, timeout), "%v", trip)
		require.True(t, TooFarForSilence(trip, timeout-100*ms), "%v", trip)
		if timeout >= LeastSilenceTimeout {
			require.Less(t, timeout, LeastTTL(trip), "%v", trip)
		}
	}
}
