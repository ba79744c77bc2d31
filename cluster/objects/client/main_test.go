package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/objects/client"
	"github.com/goverse/goverse/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	leaktest.Main(m)
}

// patient returns a context that ends with the test, or earlier if the test hangs.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// dialWithTiming returns a client that is closed with the test.
func dialWithTiming(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.Dial(patient(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
