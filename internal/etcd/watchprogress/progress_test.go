package watchprogress

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAWatchThatKeepsUpIsNotTimed(t *testing.T) {
	w := NewWatch(10)
	require.EqualValues(t, 11, w.StartRevision())
	w, timer := w.OnKnownRevision(20)
	require.Equal(t, LeaveTimer, timer, "the timer of the opening runs")
	w, timer = w.OnAnswer(15, true, 10)
	require.Equal(t, StopTimer, timer)
	require.EqualValues(t, 10, w.ReachedRevision(), "that it was opened says nothing of events before")
	w, timer = w.OnAnswer(16, false, 16)
	require.Equal(t, LeaveTimer, timer)
	require.EqualValues(t, 16, w.ReachedRevision())
	_, timer = w.OnKnownRevision(16)
	require.Equal(t, LeaveTimer, timer)
}

func TestAKnownRevisionIsAwaited(t *testing.T) {
	w, timer := NewWatch(10).OnAnswer(10, true, 12)
	require.Equal(t, StartTimer, timer, "known before it was opened")
	require.EqualValues(t, 12, w.AwaitedRevision())
	w, timer = w.OnKnownRevision(15)
	require.Equal(t, LeaveTimer, timer, "one at a time")
	w, timer = w.OnAnswer(11, false, 15)
	require.Equal(t, LeaveTimer, timer, "not far enough")
	w, timer = w.OnAnswer(13, false, 15)
	require.Equal(t, StartTimer, timer, "and there is a newer one meanwhile")
	require.EqualValues(t, 15, w.AwaitedRevision())
	w, timer = w.OnAnswer(15, false, 15)
	require.Equal(t, StopTimer, timer)
	require.Zero(t, w.AwaitedRevision())
}

// Behind a proxy there are no reports, and a comparison with etcd serves as well.
func TestAComparisonIsAsGoodAsAReport(t *testing.T) {
	w, timer := NewWatch(10).OnAnswer(10, true, 12)
	require.Equal(t, StartTimer, timer)
	w, timer = w.OnNothingMissing(12)
	require.Equal(t, LeaveTimer, timer, "nothing newer is known")
	require.EqualValues(t, 12, w.ReachedRevision())
	require.EqualValues(t, 13, w.StartRevision(), "where another watch would go on")
	w, timer = w.OnKnownRevision(20)
	require.Equal(t, StartTimer, timer)
	w, timer = w.OnNothingMissing(25)
	require.Equal(t, StartTimer, timer)
	require.EqualValues(t, 25, w.AwaitedRevision())
}
