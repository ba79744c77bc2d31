package hedge

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	errRefused = errors.New("refused")
	errLost    = errors.New("the connection broke")
)

// reply is what one copy gets, after a time. A copy without one gets none.
type reply struct {
	after time.Duration
	err   error
}

// script answers the copies of a request one after the other, and records them.
type script struct {
	began   time.Time
	replies map[int]reply // by the number of the copy, from 1

	mu    sync.Mutex
	sent  []time.Duration
	ended []int // the copies that have returned
}

// send sends a copy, and returns its number when it is answered.
func (s *script) send(ctx context.Context) (int, error) {
	s.mu.Lock()
	s.sent = append(s.sent, time.Since(s.began))
	n := len(s.sent)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = append(s.ended, n)
	}()
	r, answered := s.replies[n]
	if !answered {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	select {
	case <-time.After(r.after):
		return n, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

var policy = Policy{First: 100 * time.Millisecond, Last: 300 * time.Millisecond}

// run runs a script, and requires that all copies have returned.
func run(t *testing.T, p Policy, limit time.Duration, s *script) (got int, took time.Duration, err error) {
	t.Helper()
	s.began = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	got, err = Do(ctx, p, s.send)
	require.Len(t, s.ended, len(s.sent), "a copy is still in progress")
	return got, time.Since(s.began), err
}

func milliseconds(all ...time.Duration) (out []time.Duration) {
	for _, d := range all {
		out = append(out, d*time.Millisecond)
	}
	return out
}

func TestFirstAnswerWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{replies: map[int]reply{1: {after: 50 * time.Millisecond}}}
		got, _, err := run(t, policy, time.Minute, s)
		require.NoError(t, err)
		require.Equal(t, 1, got)
		require.Len(t, s.sent, 1, "one suffices")

		s = &script{replies: map[int]reply{1: {after: time.Minute}, 3: {after: 10 * time.Millisecond}}}
		got, took, err := run(t, policy, time.Hour, s)
		require.NoError(t, err)
		require.Equal(t, 3, got)
		require.Equal(t, 310*time.Millisecond, took)

		s = &script{replies: map[int]reply{1: {after: 150 * time.Millisecond}}}
		got, took, err = run(t, policy, time.Hour, s)
		require.NoError(t, err)
		require.Equal(t, 1, got, "an earlier copy still counts")
		require.Equal(t, 150*time.Millisecond, took)
	})
}

func TestGapsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		_, took, err := run(t, policy, 1500*time.Millisecond, s)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1500*time.Millisecond, took)
		require.Equal(t, milliseconds(0, 100, 300, 600, 900, 1200), s.sent[:6])

		s = &script{}
		p := policy
		p.Most = 2
		_, _, err = run(t, p, time.Minute, s)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, milliseconds(0, 100), s.sent)
	})
}

// An error counts only if no other copy is in progress, which may still be answered.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{replies: map[int]reply{1: {after: 20 * time.Millisecond, err: errRefused}}}
		_, took, err := run(t, policy, time.Minute, s)
		require.ErrorIs(t, err, errRefused)
		require.Equal(t, 20*time.Millisecond, took)

		s = &script{replies: map[int]reply{1: {after: 150 * time.Millisecond, err: errLost},
			2: {after: 100 * time.Millisecond}}}
		got, _, err := run(t, policy, time.Minute, s)
		require.NoError(t, err)
		require.Equal(t, 2, got)

		s = &script{replies: map[int]reply{1: {after: 190 * time.Millisecond, err: errLost},
			2: {after: 10 * time.Millisecond, err: errRefused}}}
		_, took, err = run(t, policy, time.Minute, s)
		require.ErrorIs(t, err, errLost, "the last one")
		require.Equal(t, 190*time.Millisecond, took)

		s = &script{replies: map[int]reply{4: {after: 10 * time.Millisecond, err: errRefused}, 5: {}}}
		got, _, err = run(t, policy, time.Minute, s)
		require.NoError(t, err)
		require.Equal(t, 5, got)
		require.Equal(t, milliseconds(0, 100, 300, 600, 710), s.sent, "sooner after one that failed")
	})
}

func TestEachCopyIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{replies: map[int]reply{4: {after: 10 * time.Millisecond}}}
		p := policy
		p.Each = 350 * time.Millisecond
		got, _, err := run(t, p, time.Minute, s)
		require.NoError(t, err)
		require.Equal(t, 4, got)
		require.Equal(t, milliseconds(0, 100, 300, 450), s.sent, "the first one ends at 350 ms")
		require.Equal(t, []int{1, 2}, s.ended[:2])
	})
}

func TestUnwantedRequestIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wanted := 2
		p := policy
		p.Wanted = func() bool {
			wanted--
			return wanted > 0
		}
		s := &script{}
		_, took, err := run(t, p, time.Minute, s)
		require.ErrorIs(t, err, ErrUnwanted)
		require.Equal(t, milliseconds(0, 100), s.sent)
		require.Equal(t, 300*time.Millisecond, took)
	})
}
