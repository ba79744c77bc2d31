package effects_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/test/testbed"
)

// unknown leaves an attempt with an unknown outcome.
func (s *testBed) unknown(t *testing.T, name string) (token int64) {
	t.Helper()
	require.PanicsWithValue(t, "oops", func() {
		_, _ = s.a.Once(s.ctx, name, func(_ context.Context, attempt int64) ([]byte, error) {
			token = attempt
			panic("oops")
		})
	})
	return token
}

// The answer is lost, and then the read that looks for the outcome, twice. The write is still found.
func TestAnswerAndLooksAreLost(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	lose := func(key string, before int32) {
		var looks atomic.Int32
		s.a.Faults.LoseAnswer(etcdfault.OpTxn, etcdfault.Putting(key))
		for range 2 {
			s.a.Faults.FailNext(etcdfault.OpGet, errRefused, etcdfault.Getting(key),
				func(etcdfault.Request) bool { return looks.Add(1) > before })
		}
	}
	r, err := s.a.Once(s.ctx, "e", func(context.Context, int64) ([]byte, error) {
		lose(s.keys.EffectMark("e"), 0)
		return nil, nil
	})
	require.NoError(t, err)
	require.True(t, r.Ran)

	token := s.unknown(t, "f")
	lose(s.keys.EffectMark("f"), 2) // the first read is that of Resolve; both rules see it
	require.NoError(t, s.a.Resolve(s.ctx, "f", token, true, nil))
}

// A resolution that cannot be written is retried until the process ends. One that was committed is recognized
// by the next session.
func TestResolveWhileSessionsEnd(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	lost, stuck := s.unknown(t, "lost"), s.unknown(t, "stuck")
	key := s.keys.EffectMark("lost")
	s.a.Faults.LoseAnswer(etcdfault.OpTxn, etcdfault.Putting(key))
	var looks atomic.Int32
	s.a.Faults.FailNext(etcdfault.OpGet, errRefused, etcdfault.Getting(key), func(etcdfault.Request) bool {
		if looks.Add(1) == 2 { // after the write
			_, _ = s.client.Revoke(s.ctx, s.a.Keeper.Current().ID())
			return true
		}
		return false
	})
	require.NoError(t, s.a.Resolve(s.ctx, "lost", lost, true, []byte("done")))

	key = s.keys.EffectMark("stuck")
	var tried atomic.Int32
	for range 100 {
		s.a.Faults.FailNext(etcdfault.OpTxn, rpctypes.ErrNoSpace, etcdfault.Putting(key),
			func(etcdfault.Request) bool { return tried.Add(1) > 0 })
	}
	ended := make(chan error, 1)
	go func() { ended <- s.a.Resolve(context.Background(), "stuck", stuck, true, nil) }()
	require.Eventually(t, func() bool { return tried.Load() > 2 }, time.Minute, time.Millisecond)
	s.a.Stop()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, once.ErrStopped)
	case <-time.After(5 * time.Second):
		t.Fatal("it goes on")
	}
}

// lateContext has ended once over is set. Its Done does not show that: goroutines that wait for it may be late.
type lateContext struct {
	context.Context
	over *atomic.Bool
}

func (c lateContext) Err() error {
	if c.over.Load() {
		return errRefused
	}
	return c.Context.Err()
}

// An effect does not begin if its caller has given up when the answer to the first write comes.
func TestGivenUpBeforeTheAnswer(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	ctx := lateContext{s.ctx, &atomic.Bool{}}
	s.a.Faults.FailNext(etcdfault.OpTxn, errRefused, etcdfault.Putting(s.keys.EffectMark("e")),
		func(etcdfault.Request) bool {
			ctx.over.Store(true)
			return false // it does not fail
		})
	_, err := s.a.Once(ctx, "e", never)
	require.ErrorIs(t, err, errRefused)
	require.True(t, ctx.over.Load())
	s.a.Faults.Heal()
	r, err := s.a.Once(s.ctx, "e", func(context.Context, int64) ([]byte, error) { return nil, nil })
	require.NoError(t, err)
	require.True(t, r.Ran)
}

// Whenever its context ends, Once and Resolve return the cause.
func TestCauseOfTheContext(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	for i, at := range []struct {
		op etcdfault.Op
		by func(prefix string) etcdfault.Match
		of func(name string) string
	}{
		{etcdfault.OpGet, etcdfault.Getting, s.keys.EffectMark},
		{etcdfault.OpTxn, etcdfault.Putting, s.keys.Effects().QueuePrefix},
		{etcdfault.OpTxn, etcdfault.Putting, s.keys.EffectMark},
	} {
		for what, name := range map[string]string{"run": fmt.Sprint("run ", i), "resolve": fmt.Sprint("resolve ", i)} {
			token := int64(0)
			if what == "resolve" {
				token = s.unknown(t, name)
			}
			ctx, cancel := context.WithCancelCause(s.ctx)
			held := s.a.Faults.HoldNext(at.op, at.by(at.of(name)))
			ended := make(chan error, 1)
			go func() {
				if what == "resolve" {
					ended <- s.a.Resolve(ctx, name, token, true, nil)
					return
				}
				_, err := s.a.Once(ctx, name, never)
				ended <- err
			}()
			<-held.Caught()
			cancel(errRefused)
			require.ErrorIs(t, <-ended, errRefused, name)
			_ = held.Release(s.ctx) // it may arrive late
		}
	}
}
