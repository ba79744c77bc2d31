package effects

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/once"
)

// Any value of a mark is in one of the known states, or unreadable with a reason.
func FuzzMark(f *testing.F) {
	f.Add([]byte(`{"state":"running","attempt":1,"token":7,"by":"a:1","at":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"state":"done","value":"aGk="}`))
	f.Add([]byte(`{"state":"lost"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := stateFromMark("it", raw)
		require.Equal(t, "it", s.Name)
		switch s.State {
		case once.Running, once.Done, once.Failed:
		case once.Unreadable:
			require.NotEmpty(t, s.Error)
		default:
			require.Fail(t, "no state", "%q", s.State)
		}
	})
}
