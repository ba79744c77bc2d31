package oncetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/once"
)

// outcome is what a call of Once or Resolve returned.
type outcome struct {
	once.Result
	err error
}

// attempt is a call of Once whose effect is running.
type attempt struct {
	ctx   context.Context
	token int64
	end   chan<- struct{}
	ended <-chan outcome
}

// startAttempt calls Once, and returns when the effect is running. It ends with the value done when end is closed.
func (s *suite) startAttempt(ctx context.Context, r once.Registry, name string) *attempt {
	s.Helper()
	end, ended, running := make(chan struct{}), make(chan outcome, 1), make(chan *attempt, 1)
	go func() {
		result, err := r.Once(ctx, name, func(ctx context.Context, token int64) ([]byte, error) {
			running <- &attempt{ctx: ctx, token: token, end: end, ended: ended}
			select {
			case <-end:
			case <-s.ctx.Done():
			}
			return []byte("done"), nil
		})
		ended <- outcome{result, err}
	}()
	select {
	case a := <-running:
		return a
	case o := <-ended:
		require.FailNow(s, "the effect did not begin", "%v", o.err)
	}
	return nil
}

// While an attempt runs, the others wait for its result, and for nothing longer.
func checkRunning(s *suite) {
	run := s.startAttempt(s.ctx, s.a, "running")
	found := s.look(s.b, "running")
	require.Equal(s, once.Running, found.State)
	require.Equal(s, run.token, found.Token)

	impatient, cancel := context.WithTimeoutCause(s.ctx, 50*time.Millisecond, errRefused)
	defer cancel()
	waits := make(chan outcome, 4)
	for _, r := range []once.Registry{s.a, s.b} {
		go func() {
			result, err := r.Once(impatient, "running", s.never)
			waits <- outcome{result, err}
		}()
		go func() { waits <- outcome{err: r.Resolve(impatient, "running", run.token, false, nil)} }()
	}
	for range 4 {
		require.ErrorIs(s, (<-waits).err, errRefused)
	}

	for _, r := range []once.Registry{s.a, s.b} {
		go func() {
			result, err := r.Once(s.ctx, "running", s.never)
			waits <- outcome{result, err}
		}()
		go func() { waits <- outcome{err: r.Resolve(s.ctx, "running", run.token, false, nil)} }()
	}
	close(run.end)
	o := <-run.ended
	require.NoError(s, o.err)
	require.True(s, o.Ran)
	for range 4 {
		switch o := <-waits; {
		case o.err != nil:
			require.ErrorIs(s, o.err, once.ErrNotUnknown, "the attempt is not overruled")
		default:
			require.Equal(s, once.Result{Value: []byte("done"), Attempt: 1, Token: run.token}, o.Result)
		}
	}
}

// The context of an effect ends with the caller's. The outcome is recorded all the same.
func checkContexts(s *suite) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	run := s.startAttempt(ctx, s.a, "context")
	require.NoError(s, run.ctx.Err())
	cancel(errRefused)
	<-run.ctx.Done()
	require.Equal(s, errRefused, context.Cause(run.ctx))
	close(run.end)
	o := <-run.ended
	require.NoError(s, o.err)
	require.True(s, o.Ran)
	require.Equal(s, once.Done, s.look(s.b, "context").State)

	_, err := s.a.Once(ctx, "context over", s.never)
	require.ErrorIs(s, err, errRefused)
	require.ErrorIs(s, s.a.Resolve(ctx, "context over", 1, true, nil), errRefused)
	_, err = s.a.Look(s.ctx, "context over")
	require.ErrorIs(s, err, once.ErrNoMark)
}

func checkNames(s *suite) {
	names := []string{"a", "a/b", "a/", "/a", "A", "ä", "a b", "..", ".", "%2F", "a%2Fb", "\x00", "\xff", "'; --",
		strings.Repeat("\xff", 512), strings.Repeat("x", 512)}
	for i, name := range names {
		s.run(s.a, name, fmt.Sprint(i))
	}
	for i, name := range names {
		r, err := s.b.Once(s.ctx, name, s.never)
		require.NoError(s, err, "%q", name)
		require.Equal(s, fmt.Sprint(i), string(r.Value), "%q", name)
		s.look(s.b, name)
	}
	listed := s.list(once.Query{})
	for _, name := range names {
		require.True(s, slices.ContainsFunc(listed, func(m once.Standing) bool { return m.Name == name }), "%q", name)
	}
}

func checkArguments(s *suite) {
	for _, name := range []string{"", strings.Repeat("x", 513)} {
		_, err := s.a.Once(s.ctx, name, s.never)
		require.ErrorIs(s, err, once.ErrBadName)
		require.ErrorIs(s, s.a.Resolve(s.ctx, name, 1, true, nil), once.ErrBadName)
		_, err = s.a.Look(s.ctx, name)
		require.ErrorIs(s, err, once.ErrBadName)
	}
	_, err := s.a.Once(s.ctx, "no function", nil)
	require.ErrorContains(s, err, `effect "no function": the function is nil`)
	_, err = s.a.Look(s.ctx, "no function")
	require.ErrorIs(s, err, once.ErrNoMark)
}

// list returns all pages of a list.
func (s *suite) list(q once.Query) (all []once.Standing) {
	s.Helper()
	for {
		found, more, err := s.b.List(s.ctx, q)
		require.NoError(s, err)
		all = append(all, found...)
		if !more {
			return all
		}
		require.NotEmpty(s, found)
		q.After = found[len(found)-1].Name
	}
}

// checkListed checks the effects of a test in a list that may have others.
func checkListed(t testing.TB, prefix string, listed []once.Standing, names ...string) {
	t.Helper()
	got := []string{}
	for _, m := range listed {
		if strings.HasPrefix(m.Name, prefix) {
			got = append(got, m.Name)
		}
	}
	require.Equal(t, names, got)
}

func checkList(s *suite) {
	names := []string{"list/a", "list/b", "list/c", "list/d", "list/e"}
	for _, name := range []string{names[2], names[0], names[4]} {
		s.run(s.a, name, "value of "+name)
	}
	_, err := s.a.Once(s.ctx, names[1], func(context.Context, int64) ([]byte, error) { return nil, errors.New("no") })
	require.Error(s, err)
	s.leaveUnknown(s.a, names[3])
	for _, limit := range []int{0, 1, 2, 3, 100} {
		all := s.list(once.Query{Limit: limit})
		checkListed(s, "list/", all, names...)
		for _, m := range all {
			if strings.HasPrefix(m.Name, "list/") {
				require.Equal(s, s.look(s.a, m.Name), m)
			}
		}
	}
	checkListed(s, "list/", s.list(once.Query{After: "list/b"}), names[2:]...)
	found, more, err := s.a.List(s.ctx, once.Query{After: "list/", Limit: 2})
	require.NoError(s, err)
	require.True(s, more)
	checkListed(s, "", found, names[:2]...)
	last := s.list(once.Query{})
	found, more, err = s.a.List(s.ctx, once.Query{Limit: len(last)})
	require.NoError(s, err)
	require.False(s, more, "all are there")
	require.Len(s, found, len(last))
}

func checkListUnknown(s *suite) {
	names := []string{"open/1", "open/2", "open/3"}
	for _, name := range names {
		s.leaveUnknown(s.a, name)
	}
	s.run(s.a, "open/0", "")
	run := s.startAttempt(s.ctx, s.a, "open/4")
	for _, limit := range []int{0, 1, 2} {
		all := s.list(once.Query{Unknown: true, Limit: limit})
		checkListed(s, "open/", all, names...)
		for _, m := range all {
			require.Equal(s, once.Unknown, m.State)
		}
	}
	token := s.look(s.a, names[1]).Token
	require.NoError(s, s.a.Resolve(s.ctx, names[1], token, true, nil))
	checkListed(s, "open/", s.list(once.Query{Unknown: true}), names[0], names[2])
	close(run.end)
	require.NoError(s, (<-run.ended).err)
}
