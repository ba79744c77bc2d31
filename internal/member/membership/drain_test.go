package membership

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

func TestDrains(t *testing.T) {
	request := func(incarnation int64, undo bool) *state.Drain {
		return &state.Drain{Address: "a:1", DrainRecord: state.DrainRecord{Incarnation: incarnation, Undo: undo}}
	}
	none, drained, stopping := state.Record{}, state.Record{Draining: true}, state.Record{Draining: true, Stopping: true}
	for name, tc := range map[string]struct {
		record  state.Record
		request *state.Drain
		want    bool
	}{
		"no request":                      {none, nil, false},
		"requested":                       {none, request(7, false), true},
		"the request is gone":             {drained, nil, true},
		"undone":                          {drained, request(7, true), false},
		"undone, and never drained":       {none, request(7, true), false},
		"a former incarnation's":          {none, request(6, false), false},
		"undone for a former incarnation": {drained, request(6, true), true},
		"stopping, undone":                {stopping, request(7, true), true},
	} {
		require.Equal(t, tc.want, mustDrain(tc.record, 7, tc.request), name)
	}
}
