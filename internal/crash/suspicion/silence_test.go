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

func silent(i int, d time.Duration) Unanswered {
	return Unanswered{Address: fmt.Sprintf("%03d:1", i), Incarnation: int64(i + 1), Silent: d}
}

func TestMarks(t *testing.T) {
	two := 2 * time.Second
	mine := mark(1, "me", 2000)
	other := mark(1, "other", 2000)
	long := mark(9, "me", 2000) // of a member that is gone
	for _, c := range []struct {
		name   string
		s      *state.Snapshot
		silent []Unanswered
		want   Marks
	}{
		{"nobody is silent", marked(3), nil, Marks{}},
		{"one is", marked(3), []Unanswered{silent(1, two)}, Marks{Write: []Unanswered{silent(1, two)}}},
		{"which another one has said", marked(3, other), []Unanswered{silent(1, two)},
			Marks{Write: []Unanswered{silent(1, two)}}},
		{"which this one has said", marked(3, mine, other), []Unanswered{silent(1, two)}, Marks{}},
		{"and it has lasted", marked(3, mine), []Unanswered{silent(1, 3*time.Second)},
			Marks{Write: []Unanswered{silent(1, 3*time.Second)}}},
		{"it answers", marked(3, mine, other), nil, Marks{Erase: []*state.Silence{mine}}},
		{"it is gone", marked(3, long), []Unanswered{silent(1, two)},
			Marks{Erase: []*state.Silence{long}, Write: []Unanswered{silent(1, two)}}},
		{"it was never there", marked(3), []Unanswered{silent(7, two)}, Marks{}},
		{"it is another process", marked(3), []Unanswered{{"001:1", 77, two}}, Marks{}},
	} {
		require.Equal(t, c.want, MarksOf(c.s, "me", c.silent), c.name)
	}
}

// If most members stand still, few are marked.
func TestMarksAreBounded(t *testing.T) {
	for n, most := range map[int]int{10: silentFew, 200: 10} {
		var marks []*state.Silence
		for i := range most {
			marks = append(marks, mark(i, "other", 2000))
		}
		one := []Unanswered{silent(n-1, 2*time.Second)}
		require.Len(t, MarksOf(marked(n, marks...), "me", one).Write, 1, "the last one that may be")
		marks = append(marks, mark(most, "other", 2000))
		require.Empty(t, MarksOf(marked(n, marks...), "me", one).Write)
		own := mark(most+1, "me", 2000)
		require.Equal(t, []*state.Silence{own}, MarksOf(marked(n, append(marks, own)...), "me", one).Erase,
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
		require.Equal(t, i >= 30-mostTargets*2, member, i)
		targets := Targets(s, Self{Address: s.Members[i].Address, InstanceID: fmt.Sprint("i", i)}, 2,
			func(*state.Member) bool { return false })
		for _, m := range targets {
			if m.Address == "000:1" {
				require.True(t, member, "%d watches it", i)
			}
		}
	}
}
