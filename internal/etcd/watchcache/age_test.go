package watchcache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAge(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var a age
	require.True(t, a.current.IsZero())
	a.read(10, at(1))
	require.Equal(t, at(1), a.current)
	a.saw(10, at(2))
	require.Equal(t, at(2), a.current, "nothing was written meanwhile")
	a.saw(12, at(3))
	a.saw(14, at(4))
	require.Equal(t, at(2), a.current, "the watch has yet to bring it")
	a.reach(11)
	require.Equal(t, at(2), a.current)
	a.reach(12)
	require.Equal(t, at(3), a.current, "as of the first of them")
	a.saw(12, at(5))
	require.Equal(t, at(5), a.current)
	a.read(5, at(6))
	require.Equal(t, at(6), a.current, "another history")
	a.saw(5, at(7))
	require.Equal(t, at(7), a.current)
}
