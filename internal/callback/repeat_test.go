package callback

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

// A function that fails, however it does, is called again after a pause that grows, and begins anew after a call
// that lasted long. Each failure is logged.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := hclog.New(&hclog.LoggerOptions{Output: &text})
		var calls []time.Duration
		last := time.Now()
		Repeat(t.Context(), log, "it failed", func() error {
			calls = append(calls, time.Since(last))
			defer func() { last = time.Now() }()
			switch len(calls) {
			case 1:
				panic("at the disco")
			case 2:
				runtime.Goexit()
			case 3:
				<-time.After(time.Minute) // of the bubble
				return errors.New("broken")
			case 4:
				return nil
			}
			t.Error("it has succeeded")
			return nil
		}, "shard", 7)
		require.Len(t, calls, 4)
		for i, pause := range []time.Duration{0, time.Second / 4, time.Second / 2, time.Second / 4} {
			require.InDelta(t, pause, calls[i], float64(pause)/5+1, i)
		}
		require.Equal(t, 3, bytes.Count(text.Bytes(), []byte("it failed, calling it again: shard=7 error=")))
		require.Contains(t, text.String(), "at the disco")
		require.Equal(t, 1, bytes.Count(text.Bytes(), []byte("repeat_test.go")), "the stack of the panic")
	})
}

// After the end of its context a function may return any error, but not panic unnoticed. It is not called again.
func TestRepeatEndsWithItsContext(t *testing.T) {
	for says, f := range map[string]func() error{
		"":          func() error { return errors.New("broken") },
		"it failed": func() error { panic("at the disco") },
	} {
		var text bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		Repeat(ctx, hclog.New(&hclog.LoggerOptions{Output: &text}), "it failed", func() error { cancel(); return f() })
		require.Contains(t, text.String(), says)
		require.Equal(t, says == "", text.Len() == 0)
		require.NotContains(t, text.String(), "again")
		Repeat(ctx, nil, "", func() error { t.Error("it has ended"); return nil })
	}
}
