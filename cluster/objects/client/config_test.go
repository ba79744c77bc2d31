package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/objects/client"
)

func TestBadConfig(t *testing.T) {
	t.Parallel()
	good := []string{"127.0.0.1:1"}
	for part, cfg := range map[string]client.Config{
		"Addresses is empty":       {},
		`Addresses has "here"`:     {Addresses: []string{"here"}},
		`Addresses has ":1"`:       {Addresses: []string{"127.0.0.1:1", ":1"}},
		`Prefix is "goverse"`:      {Addresses: good, Prefix: "goverse"},
		`Prefix is "/goverse/"`:    {Addresses: good, Prefix: "/goverse/"},
		"CallTimeout is negative":  {Addresses: good, CallTimeout: -time.Second},
		"MaxMessage is negative":   {Addresses: good, MaxMessage: -1},
		`Idempotent has "Get"`:     {Addresses: good, Idempotent: []string{"Get"}},
		`Idempotent has "a.B/Get"`: {Addresses: good, Idempotent: []string{"a.B/Get"}},
	} {
		_, err := client.Dial(t.Context(), cfg)
		require.ErrorIs(t, err, client.ErrBadConfig)
		require.ErrorContains(t, err, part)
		require.NotContains(t, err.Error(), "\n")
	}
	require.NoError(t, client.Config{Addresses: good, Prefix: "/a/b", Idempotent: []string{"/a.B/Get"}}.Validate())
}

// The error distinguishes a context with a cause of its own from one without, and names each node once.
func TestDialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOwn)
	// These nodes do not answer. A refusing node's own error may also name the address, if it comes before ctx
	// ends.
	first, second := silent(t), silent(t)
	_, err := client.Dial(ctx, client.Config{Addresses: []string{first, second}})
	require.ErrorIs(t, err, errOwn)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, strings.Count(err.Error(), first+": "))
	require.Equal(t, 1, strings.Count(err.Error(), second+": "))
}
