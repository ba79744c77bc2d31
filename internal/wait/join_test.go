package wait

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, gate := time.Now(), make(chan struct{})
		require.False(t, Join(gate, time.Second))
		require.False(t, JoinFunc(func() { <-gate }, time.Second))
		require.Equal(t, 2*time.Second, time.Since(began), "each waited for its limit")
		time.AfterFunc(time.Minute, func() { close(gate) })
		require.True(t, JoinFunc(func() { <-gate }, time.Hour))
		require.True(t, Join(gate, time.Hour))
		require.Equal(t, time.Minute+2*time.Second, time.Since(began), "neither waited longer than needed")
	})
}
