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
	require.Equal(t, Settings{Watchers: 2, GracePeriod: 100 * time.Millisecond, Confirmations: 3, Rest: time.Second},
		Settings{}.WithDefaults())
	own := Settings{Off: true, Watchers: 1, GracePeriod: time.Second, Confirmations: 9, Rest: time.Minute,
		SilenceTimeout: -1}
	require.NoError(t, own.Validate())
	require.Equal(t, own, own.WithDefaults())
}

func TestSilenceTimeoutByDefault(t *testing.T) {
	const usual = 3500 * time.Millisecond
	for _, tc := range []struct{ timeout, ttl, want time.Duration }{
		{0, 6 * time.Second, 0}, {0, 7 * time.Second, usual}, {0, time.Hour, usual},
		{-1, time.Minute, -1}, {time.Second, 2 * time.Second, time.Second}, {9 * time.Second, time.Minute, 9 * time.Second},
	} {
		require.Equal(t, tc.want, SilenceTimeoutOrDefault(tc.timeout, tc.ttl), "%v", tc)
	}
}
