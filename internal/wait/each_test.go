package wait

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEach(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed, done := make(chan struct{}), 0
	go func() {
		changed <- struct{}{}
		changed <- struct{}{}
		cancel()
	}()
	Each(ctx, changed, func() { done++ })
	require.Equal(t, 2, done)
}
