package oncetest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/once"
)

func checkMany(s *suite) {
	var n, ran atomic.Int32
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			r, err := []once.Registry{s.a, s.b}[i%2].Once(s.ctx, "many", counts(&n, "sent"))
			if assert.NoError(s, err) {
				assert.Equal(s, "sent", string(r.Value))
				assert.Equal(s, 1, r.Attempt)
				if r.Ran {
					ran.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(s, 1, n.Load())
	require.EqualValues(s, 1, ran.Load())
}

func checkRemembered(s *suite) {
	before := time.Now()
	first := s.run(s.a, "remembered", "sent")
	require.Equal(s, "sent", string(first.Value))
	require.Equal(s, 1, first.Attempt)
	require.Positive(s, first.Token)
	for _, r := range []once.Registry{s.a, s.b} {
		again, err := r.Once(s.ctx, "remembered", s.never)
		require.NoError(s, err)
		require.False(s, again.Ran)
		again.Ran = true
		require.Equal(s, first, again)
		found := s.look(r, "remembered")
		require.WithinDuration(s, before, found.At, patience, "the clocks may differ a little")
		require.Positive(s, found.Retention)
		require.NotEmpty(s, found.By)
		require.Equal(s, once.Standing{Name: "remembered", State: once.Done, Attempt: 1, Token: first.Token, By: found.By,
			At: found.At, Value: []byte("sent"), Retention: found.Retention}, found)
	}
}

func checkFailure(s *suite) {
	last := int64(0)
	for i, failure := range []error{errRefused, fmt.Errorf("%w: \x00\xff%s", errRefused, strings.Repeat("ä", 1<<16))} {
		_, err := s.a.Once(s.ctx, "failure", func(_ context.Context, token int64) ([]byte, error) {
			assert.Greater(s, token, last)
			last = token
			return []byte("partly"), failure
		})
		require.Equal(s, failure, err, "as it is")
		found := s.look(s.b, "failure")
		require.Equal(s, once.Failed, found.State)
		require.Equal(s, i+1, found.Attempt)
		require.Equal(s, last, found.Token)
		require.Empty(s, found.Value)
		require.Contains(s, found.Error, errRefused.Error())
		require.Less(s, len(found.Error), 1<<12, "it is bounded")
	}
	r := s.run(s.b, "failure", "")
	require.Equal(s, 3, r.Attempt)
	require.Greater(s, r.Token, last)
	require.Empty(s, s.look(s.a, "failure").Error)
}

func checkUnknown(s *suite) {
	token := s.leaveUnknown(s.a, "unknown")
	for _, r := range []once.Registry{s.a, s.b} {
		_, err := r.Once(s.ctx, "unknown", s.never)
		s.requireUnknown(err, "unknown", 1, token)
		found := s.look(r, "unknown")
		require.Equal(s, once.Unknown, found.State)
		require.Equal(s, token, found.Token)
	}
}

func checkResolvedDone(s *suite) {
	token := s.leaveUnknown(s.a, "resolved done")
	require.ErrorIs(s, s.b.Resolve(s.ctx, "resolved done", token+1, true, nil), once.ErrNotUnknown)
	require.NoError(s, s.b.Resolve(s.ctx, "resolved done", token, true, []byte("number 7")))
	for _, tookPlace := range []bool{true, false} {
		err := s.a.Resolve(s.ctx, "resolved done", token, tookPlace, []byte("number 7"))
		require.ErrorIs(s, err, once.ErrNotUnknown, "it was resolved")
	}
	r, err := s.a.Once(s.ctx, "resolved done", s.never)
	require.NoError(s, err)
	require.Equal(s, once.Result{Value: []byte("number 7"), Attempt: 1, Token: token}, r)
	found := s.look(s.a, "resolved done")
	require.Equal(s, once.Done, found.State)
	require.NotEmpty(s, found.Resolved)
}

func checkResolvedFailed(s *suite) {
	token := s.leaveUnknown(s.a, "resolved failed")
	require.NoError(s, s.b.Resolve(s.ctx, "resolved failed", token, false, []byte("ignored")))
	found := s.look(s.a, "resolved failed")
	require.Equal(s, once.Failed, found.State)
	require.NotEmpty(s, found.Resolved)
	require.Empty(s, found.Value)
	require.ErrorIs(s, s.a.Resolve(s.ctx, "resolved failed", token, true, nil), once.ErrNotUnknown)
	r := s.run(s.a, "resolved failed", "done")
	require.Equal(s, 2, r.Attempt)
	require.Greater(s, r.Token, token)
	require.Empty(s, s.look(s.b, "resolved failed").Resolved, "the attempt itself recorded it")
}

func checkNotUnknown(s *suite) {
	require.ErrorIs(s, s.a.Resolve(s.ctx, "never attempted", 1, true, nil), once.ErrNotUnknown)
	r := s.run(s.a, "known", "done")
	require.ErrorIs(s, s.b.Resolve(s.ctx, "known", r.Token, false, nil), once.ErrNotUnknown)
	require.Equal(s, once.Done, s.look(s.a, "known").State)
}

func checkValues(s *suite) {
	for name, size := range map[string]int{"nothing": 0, "one byte": 1, "the longest": once.MaxValue} {
		name, value := "value: "+name, bytes.Repeat([]byte{0xff}, size)
		s.run(s.a, name, string(value))
		r, err := s.b.Once(s.ctx, name, s.never)
		require.NoError(s, err)
		require.True(s, bytes.Equal(value, r.Value), name)
	}
	long := strings.Repeat("x", once.MaxValue+1)
	var n atomic.Int32
	r, err := s.a.Once(s.ctx, "value: too long", counts(&n, long))
	require.ErrorIs(s, err, once.ErrValueTooLong)
	require.True(s, r.Ran)
	require.Equal(s, len(long), len(r.Value), "only this call has it")
	r, err = s.b.Once(s.ctx, "value: too long", s.never)
	require.ErrorIs(s, err, once.ErrValueTooLong)
	require.Empty(s, r.Value)
	require.Equal(s, 1, r.Attempt)
	found := s.look(s.b, "value: too long")
	require.Equal(s, once.Done, found.State)
	require.Equal(s, len(long), found.Dropped)

	token := s.leaveUnknown(s.a, "value: resolved")
	require.ErrorIs(s, s.b.Resolve(s.ctx, "value: resolved", token, true, []byte(long)), once.ErrValueTooLong)
	require.Equal(s, once.Unknown, s.look(s.b, "value: resolved").State)
}
