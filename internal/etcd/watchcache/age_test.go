package watchcache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAge(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var a snapshotAge
	require.True(t, a.completeAsOf.IsZero())
	a.recordRead(10, at(1))
	require.Equal(t, at(1), a.completeAsOf)
	a.recordAnswer(10, at(2))
	require.Equal(t, at(2), a.completeAsOf, "nothing was written meanwhile")
	a.recordAnswer(12, at(3))
	a.recordAnswer(14, at(4))
	require.Equal(t, at(2), a.completeAsOf, "the watch has yet to bring it")
	a.recordReached(11)
	require.Equal(t, at(2), a.completeAsOf)
	a.recordReached(12)
	require.Equal(t, at(3), a.completeAsOf, "as of the first of them")
	a.recordAnswer(12, at(5))
	require.Equal(t, at(5), a.completeAsOf)
	a.recordRead(5, at(6))
	require.Equal(t, at(6), a.completeAsOf, "another history")
	a.recordAnswer(5, at(7))
	require.Equal(t, at(7), a.completeAsOf)
}
