package watchprogress

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAWatchThatKeepsUpIsNotTimed(t *testing.T) {
	w := Since(10)
	require.EqualValues(t, 11, w.From())
	w, timer := w.Reported(20)
	require.Equal(t, Leave, timer, "the timer of the opening runs")
	w, timer = w.Answered(15, true, 10)
	require.Equal(t, Stop, timer)
	require.EqualValues(t, 10, w.Reached(), "that it was opened says nothing of events before")
	w, timer = w.Answered(16, false, 16)
	require.Equal(t, Leave, timer)
	require.EqualValues(t, 16, w.Reached())
	_, timer = w.Reported(16)
	require.Equal(t, Leave, timer)
}

func TestAKnownRevisionIsAwaited(t *testing.T) {
	w, timer := Since(10).Answered(10, true, 12)
	require.Equal(t, Start, timer, "known before it was opened")
	require.EqualValues(t, 12, w.Awaited())
	w, timer = w.Reported(15)
	require.Equal(t, Leave, timer, "one at a time")
	w, timer = w.Answered(11, false, 15)
	require.Equal(t, Leave, timer, "not far enough")
	w, timer = w.Answered(13, false, 15)
	require.Equal(t, Start, timer, "and there is a newer one meanwhile")
	require.EqualValues(t, 15, w.Awaited())
	w, timer = w.Answered(15, false, 15)
	require.Equal(t, Stop, timer)
	require.Zero(t, w.Awaited())
}

// Behind a proxy there are no reports, and a comparison with etcd serves as well.
func TestAComparisonIsAsGoodAsAReport(t *testing.T) {
	w, timer := Since(10).Answered(10, true, 12)
	require.Equal(t, Start, timer)
	w, timer = w.Checked(12)
	require.Equal(t, Leave, timer, "nothing newer is known")
	require.EqualValues(t, 12, w.Reached())
	require.EqualValues(t, 13, w.From(), "where another watch would go on")
	w, timer = w.Reported(20)
	require.Equal(t, Start, timer)
	w, timer = w.Checked(25)
	require.Equal(t, Start, timer)
	require.EqualValues(t, 25, w.Awaited())
}
