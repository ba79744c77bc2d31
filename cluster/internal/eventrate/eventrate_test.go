package eventrate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRate(t *testing.T) {
	t.Parallel()
	var r Rate
	began := time.Unix(1000, 0)
	require.Zero(t, r.PerSecond(began))
	for i := range 40 {
		r.Add(began.Add(time.Duration(i)*time.Second/2), 50)
	}
	require.InDelta(t, 100, r.PerSecond(began.Add(20*time.Second-1)), 5)
	require.InDelta(t, 50, r.PerSecond(began.Add(25*time.Second)), 5, "half of the time nothing came")
	require.Zero(t, r.PerSecond(began.Add(time.Hour)))
	r.Add(began.Add(time.Hour), 1)
	require.InDelta(t, 0.1, r.PerSecond(began.Add(time.Hour)), 0.01)

	var young Rate
	young.Add(began, 10)
	require.InDelta(t, 10, young.PerSecond(began), 0, "not more than in a second")
	require.InDelta(t, 5, young.PerSecond(began.Add(2*time.Second)), 0.1)
}
