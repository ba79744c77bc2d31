package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

func TestConfigIsChecked(t *testing.T) {
	require.NoError(t, Config{}.Validate(), "zero values work")
	for _, tc := range []struct {
		cfg  Config
		want error
	}{
		{Config{EtcdPrefix: "goverse"}, state.ErrBadPrefix},
		{Config{EtcdPrefix: "/a/../b"}, state.ErrBadPrefix},
		{Config{LeaderElectionTTL: -1}, ErrBadTTL},
		{Config{LeaderElectionTTL: 100000}, ErrBadTTL},
		{Config{EtcdAddress: "localhost"}, ErrBadEtcdAddress},
		{Config{EtcdAddress: "localhost:0"}, ErrBadEtcdAddress},
		{Config{EtcdAddress: "localhost:99999"}, ErrBadEtcdAddress},
		{Config{EtcdAddress: "ftp://localhost:2379"}, ErrBadEtcdAddress},
		{Config{EtcdAddress: "a:1,,b:2"}, ErrBadEtcdAddress},
		{Config{EtcdAddress: ":2379"}, ErrBadEtcdAddress},
		{Config{WorkTimeout: -1}, ErrBadConfig},
		{Config{PreferAfter: -1}, ErrBadConfig},
		{Config{Fallback: "other"}, ErrBadConfig},
		{Config{Weight: -1}, ErrBadConfig},
		{Config{Labels: map[string]string{"notes": strings.Repeat("x", MaxLabels)}}, ErrBadConfig},
		{Config{Username: "u"}, ErrBadConfig},
		{Config{Password: "p"}, ErrBadConfig},
		{Config{CrashDetection: CrashDetection{SilenceTimeout: time.Millisecond}}, ErrBadConfig},
		{Config{CrashDetection: CrashDetection{SilenceTimeout: 10 * time.Second}}, ErrBadConfig},
	} {
		err := tc.cfg.Validate()
		require.ErrorIs(t, err, tc.want, "%+v", tc.cfg)
		require.NotContains(t, err.Error(), "\n")
	}
	for _, good := range []string{"a:1", "a:1, b:2", "http://a:1", "https://a:1/,b:2", "[::1]:2379"} {
		require.NoError(t, Config{EtcdAddress: good}.Validate(), good)
	}
	require.NoError(t, Config{CrashDetection: CrashDetection{SilenceTimeout: 9 * time.Second}}.Validate(), "below the TTL")
	asLong := CrashDetection{SilenceTimeout: 3 * time.Second}
	require.EqualError(t, Config{LeaderElectionTTL: 3, CrashDetection: asLong}.Validate(),
		"bad configuration: CrashDetection.SilenceTimeout is 3s, and the lease runs out as soon: give less than "+
			"LeaderElectionTTL (3s), or -1 for none")
	require.EqualError(t, Config{LeaderElectionTTL: 2000000000}.Validate(),
		"bad LeaderElectionTTL: 2000000000 s: give a number of seconds from 1 to 86400; 10 is a good one")
	_, err := NewClusterWithNode(Config{}, nil)
	require.ErrorIs(t, err, ErrBadConfig)
}
