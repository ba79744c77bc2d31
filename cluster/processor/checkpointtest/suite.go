// Package checkpointtest is the conformance suite of checkpoints. It checks that a checkpoint does all that
// [processor.Checkpoint] requires, whatever stores it.
//
// Not promised: the suite does not check how a checkpoint behaves when its store fails. Each implementation
// must test that itself.
//
// Experimental: the API of this package may change in any minor release.
package checkpointtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

// Checkpoint is a processor.Checkpoint that operators can manage.
type Checkpoint interface {
	processor.Checkpoint
	processor.Manager
}

const patience = 20 * time.Second

// Run checks the checkpoints that open returns: two handles of the same checkpoint, as two processes have them.
// They may be the same value. undoes must be set if the checkpoint undoes the writes of work that fails.
func Run(t *testing.T, undoes bool, open func(t *testing.T) (a, b Checkpoint)) {
	for _, test := range []struct {
		name string
		f    func(s *suite)
	}{
		{"a processor goes on where it was", checkContinues},
		{"the smaller token is refused", checkFenced},
		{"a token that is found grows", checkFound},
		{"a mark of before is refused", checkMarks},
		{"work that fails", checkFailure},
		{"one of two that advance at once", checkRaces},
		{"parked events are kept", checkParked},
		{"rewound", checkRewound},
		{"unfenced", checkUnfenced},
		{"names and positions", checkNames},
		{"pauses", checkPauses},
		{"reports", checkReports},
		{"retries", checkRetries},
		{"replays", checkReplays},
		{"lists", checkLists},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			s := &suite{T: t, ctx: ctx, undoes: undoes}
			s.a, s.b = open(t)
			test.f(s)
		})
	}
}

type suite struct {
	*testing.T
	ctx    context.Context
	undoes bool
	a, b   Checkpoint
}

func progressTo(p processor.Position, parked ...processor.Parked) func(context.Context) (processor.Progress, error) {
	return func(context.Context) (processor.Progress, error) {
		return processor.Progress{Position: p, Parked: parked}, nil
	}
}

func (s *suite) claim(c Checkpoint, name string, token int64) processor.Mark {
	s.Helper()
	m, err := c.Claim(s.ctx, name, token)
	require.NoError(s, err)
	if token != 0 {
		require.Equal(s, token, m.Token)
	}
	return m
}

func (s *suite) advance(c Checkpoint, name string, at processor.Mark, p processor.Position,
	parked ...processor.Parked) processor.Mark {
	s.Helper()
	m, err := c.Advance(s.ctx, name, at, progressTo(p, parked...))
	require.NoError(s, err)
	require.Equal(s, p, m.Position)
	require.Equal(s, at.Token, m.Token)
	require.NotEqual(s, at.Version, m.Version)
	return m
}

// storedPosition returns the position at which the next claim would continue.
func (s *suite) storedPosition(name string, token int64) processor.Position {
	s.Helper()
	return s.claim(s.b, name, token).Position
}

func checkContinues(s *suite) {
	m := s.claim(s.a, "views", 7)
	require.Empty(s, m.Position)
	for _, p := range []processor.Position{"1", "2", "0003"} {
		m = s.advance(s.a, "views", m, p)
	}
	next := s.claim(s.b, "views", 9)
	require.EqualValues(s, "0003", next.Position)
	s.advance(s.b, "views", next, "4")
	require.EqualValues(s, "4", s.claim(s.a, "views", 9).Position, "the same token may claim again")
}

func checkFenced(s *suite) {
	old := s.advance(s.a, "it", s.claim(s.a, "it", 5), "1")
	s.claim(s.b, "it", 6)
	now, err := s.a.Advance(s.ctx, "it", old, progressTo("2"))
	require.ErrorIs(s, err, processor.ErrFenced)
	require.Equal(s, old, now)
	_, err = s.a.Claim(s.ctx, "it", 5)
	require.ErrorIs(s, err, processor.ErrFenced)
	require.EqualValues(s, "1", s.storedPosition("it", 6))
}

func checkFound(s *suite) {
	first := s.claim(s.a, "it", 0)
	require.Positive(s, first.Token)
	second := s.claim(s.b, "it", 0)
	require.Greater(s, second.Token, first.Token)
	_, err := s.a.Advance(s.ctx, "it", first, progressTo("1"))
	require.ErrorIs(s, err, processor.ErrFenced)
	s.advance(s.b, "it", second, "1")
	s.claim(s.a, "it", 1000)
	require.EqualValues(s, 1001, s.claim(s.b, "it", 0).Token)
}

// A request sent before a claim is refused after it, even with the same token.
func checkMarks(s *suite) {
	before := s.claim(s.a, "it", 3)
	after := s.claim(s.a, "it", 3)
	_, err := s.a.Advance(s.ctx, "it", before, progressTo("late"))
	require.ErrorIs(s, err, processor.ErrMoved)
	after = s.advance(s.a, "it", after, "1")
	s.advance(s.a, "it", after, "2")
	_, err = s.a.Advance(s.ctx, "it", after, progressTo("1a"))
	require.ErrorIs(s, err, processor.ErrMoved)
	require.EqualValues(s, "2", s.storedPosition("it", 3))
}

func checkFailure(s *suite) {
	oops := errors.New("oops")
	m := s.advance(s.a, "it", s.claim(s.a, "it", 3), "1")
	_, err := s.a.Advance(s.ctx, "it", m, func(context.Context) (processor.Progress, error) {
		return processor.Progress{Position: "2"}, oops
	})
	require.ErrorIs(s, err, oops)
	want := processor.Position("2")
	if s.undoes {
		want = "1"
	}
	m = s.claim(s.a, "it", 3)
	require.Equal(s, want, m.Position)

	_, err = s.a.Advance(s.ctx, "it", m, func(context.Context) (processor.Progress, error) {
		return processor.Progress{Position: m.Position}, oops
	})
	require.ErrorIs(s, err, oops)
	m = s.claim(s.a, "it", 3)
	require.Equal(s, want, m.Position, "before anything was done")

	// A process that is overtaken while it works is refused, even if the work succeeds.
	_, err = s.a.Advance(s.ctx, "it", m, func(context.Context) (processor.Progress, error) {
		s.claim(s.b, "it", 4)
		return processor.Progress{Position: "3"}, nil
	})
	require.ErrorIs(s, err, processor.ErrFenced)
	require.Equal(s, want, s.storedPosition("it", 4))
}

// checkRaces checks that of two requests with one mark one succeeds, and of two with different tokens the larger.
func checkRaces(s *suite) {
	for i := range rounds {
		s.raceTokens(strconv.Itoa(i))
		s.raceMark("crowd " + strconv.Itoa(i))
	}
}

// rounds is the number of races: an implementation that reads and then writes fails only in some of them.
const rounds = 25

// raceMark checks that of eight requests with one mark, exactly one succeeds.
func (s *suite) raceMark(name string) {
	m := s.claim(s.a, name, 3)
	errs := make([]error, 8)
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range errs {
		by := []Checkpoint{s.a, s.b}[i%2]
		wg.Go(func() {
			<-begin
			_, errs[i] = by.Advance(s.ctx, name, m, progressTo(processor.Position(strconv.Itoa(i))))
		})
	}
	close(begin)
	wg.Wait()
	won := slices.Index(errs, nil)
	require.GreaterOrEqual(s, won, 0, errs)
	for i, err := range errs {
		if i != won {
			require.ErrorIs(s, err, processor.ErrMoved)
		}
	}
	require.EqualValues(s, strconv.Itoa(won), s.storedPosition(name, 3))
}

func (s *suite) raceTokens(name string) {
	same := s.claim(s.a, "same "+name, 3)
	low := s.claim(s.a, "two "+name, 3)
	high := s.claim(s.b, "two "+name, 4)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i, f := range []func() error{
		func() error { _, err := s.a.Advance(s.ctx, "same "+name, same, progressTo("a")); return err },
		func() error { _, err := s.b.Advance(s.ctx, "same "+name, same, progressTo("b")); return err },
		func() error { _, err := s.a.Advance(s.ctx, "two "+name, low, progressTo("low")); return err },
		func() error { _, err := s.b.Advance(s.ctx, "two "+name, high, progressTo("high")); return err },
	} {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	won := processor.Position("a")
	if errs[0] != nil {
		won = "b"
		errs[0], errs[1] = errs[1], errs[0]
	}
	assert.NoError(s, errs[0])
	require.ErrorIs(s, errs[1], processor.ErrMoved)
	require.Equal(s, won, s.storedPosition("same "+name, 3))
	require.ErrorIs(s, errs[2], processor.ErrFenced)
	require.NoError(s, errs[3])
	require.EqualValues(s, "high", s.storedPosition("two "+name, 4))
}

func checkParked(s *suite) {
	at := time.Now().Truncate(time.Millisecond).UTC()
	park := func(p processor.Position) processor.Parked {
		return processor.Parked{Position: p, After: "8", Error: "no such customer: 7\nline two", Attempts: 3, Token: 5,
			Time: at}
	}
	list := func() (got []processor.Parked) {
		got, err := s.b.Parked(s.ctx, "it")
		require.NoError(s, err)
		for i := range got {
			got[i].Time = got[i].Time.UTC()
		}
		return got
	}
	require.Empty(s, list())
	m := s.claim(s.a, "it", 5)
	m = s.advance(s.a, "it", m, "9", park("9"))
	m = s.advance(s.a, "it", m, "10", park("10"))
	require.Equal(s, []processor.Parked{park("9"), park("10")}, list(), "the oldest first")
	m = s.advance(s.a, "it", m, "9", park("9"))
	require.Equal(s, []processor.Parked{park("10"), park("9")}, list(), "once, where it was given up last")
	require.NoError(s, s.b.Forget(s.ctx, "it", "10"))
	require.NoError(s, s.b.Forget(s.ctx, "it", "10"))
	require.Equal(s, []processor.Parked{park("9")}, list())

	s.claim(s.b, "it", 6)
	_, err := s.a.Advance(s.ctx, "it", m, progressTo("11", park("11")))
	require.ErrorIs(s, err, processor.ErrFenced)
	require.Equal(s, []processor.Parked{park("9")}, list(), "nothing is kept without the position")
	other, err := s.a.Parked(s.ctx, "i")
	require.NoError(s, err)
	require.Empty(s, other)
}

func checkRewound(s *suite) {
	m := s.advance(s.a, "it", s.claim(s.a, "it", 100), "5")
	require.NoError(s, s.b.Rewind(s.ctx, "it", "2"))
	_, err := s.a.Advance(s.ctx, "it", m, progressTo("6"))
	require.ErrorIs(s, err, processor.ErrMoved)
	_, err = s.a.Claim(s.ctx, "it", 99)
	require.ErrorIs(s, err, processor.ErrFenced, "who was overtaken before")
	require.EqualValues(s, "2", s.storedPosition("it", 100))
	require.NoError(s, s.b.Rewind(s.ctx, "new", "3"))
	require.EqualValues(s, "3", s.storedPosition("new", 1))
	for _, bad := range []processor.Position{"\xff", "a\x00",
		processor.Position(strings.Repeat("x", processor.MaxPosition+1))} {
		require.ErrorIs(s, s.b.Rewind(s.ctx, "new", bad), processor.ErrBadPosition, "%.10q", bad)
		require.EqualValues(s, "3", s.storedPosition("new", 1), "nothing was stored")
	}
	long := processor.Position(strings.Repeat("x", processor.MaxPosition))
	require.NoError(s, s.b.Rewind(s.ctx, "new", long))
	require.Equal(s, long, s.storedPosition("new", 1))
}

func checkUnfenced(s *suite) {
	m := s.advance(s.a, "it", s.claim(s.a, "it", 100), "5")
	require.NoError(s, s.b.Unfence(s.ctx, "it"))
	_, err := s.a.Advance(s.ctx, "it", m, progressTo("6"))
	require.ErrorIs(s, err, processor.ErrMoved)
	require.EqualValues(s, "5", s.storedPosition("it", 7), "any token")
	_, err = s.a.Advance(s.ctx, "it", m, progressTo("6"))
	require.ErrorIs(s, err, processor.ErrMoved, "a token that is larger than the new one")
	_, err = s.a.Claim(s.ctx, "it", 6)
	require.ErrorIs(s, err, processor.ErrFenced, "the fence stands again")
	require.NoError(s, s.b.Unfence(s.ctx, "new"))
	require.Empty(s, s.storedPosition("new", 1))
}

func checkNames(s *suite) {
	longest := processor.Position(randomText(processor.MaxPosition))
	for name, at := range map[string]processor.Position{"a": "", "a/b": "", "a/": "", "é %2F": "",
		randomText(512): longest} {
		at = cmp.Or(at, processor.Position(name+"/../é'\"\n"))
		m := s.claim(s.a, name, 1)
		require.Empty(s, m.Position, name)
		s.advance(s.a, name, m, at, processor.Parked{Position: at, Error: "'"})
		require.Equal(s, at, s.storedPosition(name, 1), name)
		got, err := s.b.Parked(s.ctx, name)
		require.NoError(s, err)
		require.Len(s, got, 1, name)
		require.Equal(s, at, got[0].Position)
	}
}

// randomText returns text that cannot be compressed, because an index accepts longer values if it can compress
// them.
func randomText(bytes int) string {
	var text strings.Builder
	for text.Len() < bytes {
		text.WriteString(rand.Text())
	}
	return text.String()[:bytes]
}
