package suspicion

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSettingsRefused(t *testing.T) {
	for _, s := range []Settings{{Watchers: -1}, {Confirmations: -1}, {GracePeriod: -1}, {Rest: -1}} {
		err := s.Validate()
		require.Error(t, err, "%+v", s)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestSettingsDefaults(t *testing.T) {
	require.NoError(t, Settings{}.Validate())
	want := Settings{Watchers: 2, GracePeriod: 100 * time.Millisecond, Confirmations: 3, Rest: time.Second}
	require.Equal(t, want, Settings{}.WithDefaults(6*time.Second))
	want.SilenceTimeout = 3500 * time.Millisecond
	require.Equal(t, want, Settings{}.WithDefaults(7*time.Second))
	own := Settings{Off: true, Watchers: 1, GracePeriod: time.Second, Confirmations: 9, Rest: time.Minute,
		SilenceTimeout: -1}
	require.NoError(t, own.Validate())
	require.Equal(t, own, own.WithDefaults(time.Minute))
}
