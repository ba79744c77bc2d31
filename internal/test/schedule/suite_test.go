package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMissingEvents(t *testing.T) {
	s, total := &Suite{Events: []string{"a", "b"}, Enough: 2}, &Counts{}
	total.Count("a")
	total.Lasted("b", time.Second)
	require.Empty(t, s.missingEvents(1, total), "too few schedules to tell")
	require.Equal(t, []string{"b"}, s.missingEvents(2, total), "how long it lasted is no event")
}
