package embedetcd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestZeroConfigIsValid(t *testing.T) {
	require.NoError(t, Config{}.Validate())
	require.NoError(t, TestTiming(Config{}).Validate())
	require.NoError(t, Config{HeartbeatInterval: 20 * time.Millisecond}.Validate())
}

func TestConfigRefused(t *testing.T) {
	for _, cfg := range []Config{
		{ListenClient: "nowhere"},
		{ListenClient: "127.0.0.1:http"},
		{ListenClient: "127.0.0.1:65536"},
		{ListenClient: "example.org:1"},
		{HeartbeatInterval: -time.Second},
		{HeartbeatInterval: 1500 * time.Microsecond},
		{HeartbeatInterval: time.Second, ElectionTimeout: time.Second},
		{ElectionTimeout: time.Minute},
		{BcryptCost: 3},
		{BcryptCost: 32},
		{Peers: map[string]string{"other": "127.0.0.1:1"}},
		{Peers: map[string]string{"goverse": "127.0.0.1:0"}},
		{Peers: map[string]string{"goverse": ":1"}},
		{Peers: map[string]string{"goverse": "example.org:1"}},
		{Peers: map[string]string{"goverse": "127.0.0.1:1", "a=b": "127.0.0.1:2"}},
		{Peers: map[string]string{"goverse": "127.0.0.1:1", "b": "nowhere"}},
	} {
		err := cfg.Validate()
		require.ErrorIs(t, err, ErrConfig, "%+v", cfg)
		require.NotContains(t, err.Error(), "\n")
		_, err = Start(patient(t), cfg)
		require.ErrorIs(t, err, ErrConfig, "%+v", cfg)
	}
}

func TestAddressOfAnotherMachine(t *testing.T) {
	_, err := Start(patient(t), Config{ListenClient: "192.0.2.1:1"}) // reserved for documentation
	require.ErrorIs(t, err, ErrConfig)
	require.Contains(t, err.Error(), "set ListenClient")
}
