package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Replies are kept for the retention, and then removed by later saves.
func TestMemoryRetention(t *testing.T) {
	t.Parallel()
	now := time.Now()
	m := &Memory{Retention: time.Hour, now: func() time.Time { return now }}
	ref := Ref{"test.Counters", "it"}
	r, err := m.Load(t.Context(), ref, 1)
	require.NoError(t, err)
	for i := range 200 {
		r.Version, err = m.Save(t.Context(), ref, Write{Version: r.Version, Epoch: 1, RequestID: fmt.Sprint(i)})
		require.NoError(t, err)
		_, err = m.Save(t.Context(), ref, Write{Version: r.Version - 1, Epoch: 1, RequestID: fmt.Sprint(i)})
		require.ErrorIs(t, err, ErrConflict)
		require.LessOrEqual(t, len(m.replies), 61)
		require.LessOrEqual(t, len(m.oldest), 61)
		now = now.Add(time.Minute)
	}
	for id, kept := range map[string]bool{"199": true, "141": true, "140": false, "0": false} {
		_, ok, err := m.Reply(t.Context(), ref, id)
		require.NoError(t, err)
		require.Equal(t, kept, ok, id)
	}
}
