package checkpointtest

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

func (s *suite) look(name string) processor.Standing {
	s.Helper()
	now, err := s.b.Look(s.ctx, name)
	require.NoError(s, err)
	return now
}

// store advances with that progress.
func (s *suite) store(name string, at processor.Mark, p processor.Progress) processor.Mark {
	s.Helper()
	m, err := s.a.Advance(s.ctx, name, at, func(context.Context) (processor.Progress, error) { return p, nil })
	require.NoError(s, err)
	require.NotEqual(s, at.Version, m.Version)
	return m
}

// checkPauses checks that every mark shows the last request, that a request refuses no batch, and that it survives
// everything.
func checkPauses(s *suite) {
	_, err := s.b.Look(s.ctx, "it")
	require.ErrorIs(s, err, processor.ErrUnknown)
	request := processor.PauseRequest{Paused: true, Reason: "maintenance\x00", By: "an operator"}
	require.NoError(s, s.b.RequestPause(s.ctx, "it", request), "before the first claim")
	now := s.look("it")
	require.WithinDuration(s, time.Now(), now.Pause.At, patience)
	require.Positive(s, now.Pause.Number)
	require.Equal(s, processor.PauseRequest{Paused: true, Reason: "maintenance", By: "an operator", At: now.Pause.At,
		Number: now.Pause.Number}, now.Pause)
	require.True(s, now.PauseAcknowledged(), "no process has ever run")

	m := s.claim(s.a, "it", 3)
	require.True(s, m.Paused)
	require.Equal(s, now.Pause.Number, m.Request)
	require.False(s, s.look("it").PauseAcknowledged(), "a leader runs")
	require.NoError(s, s.b.RequestPause(s.ctx, "it", processor.PauseRequest{By: "another"}))
	m = s.advance(s.a, "it", m, "1")
	require.False(s, m.Paused)
	require.Greater(s, m.Request, now.Pause.Number)
	require.NoError(s, s.b.RequestPause(s.ctx, "it", request))
	m = s.advance(s.a, "it", m, "2")
	require.True(s, m.Paused, "what was in flight is stored")
	require.NoError(s, s.b.Rewind(s.ctx, "it", "1"))
	require.NoError(s, s.b.Unfence(s.ctx, "it"))
	require.True(s, s.claim(s.b, "it", 2).Paused)
	long := strings.Repeat("x", 5000)
	require.NoError(s, s.b.RequestPause(s.ctx, "it", processor.PauseRequest{Reason: long, By: long}))
	require.Less(s, len(s.look("it").Pause.Reason), 2000)
}

// checkReports checks that the last report of the current leader is kept.
func checkReports(s *suite) {
	first := s.claim(s.a, "it", 3)
	report := func(c Checkpoint, m processor.Mark, node string) (processor.Mark, error) {
		return c.Report(s.ctx, "it", processor.Report{Node: node, At: time.UnixMilli(1700000000000).UTC(), Claim: m.Claim,
			Request: m.Request, Status: processor.Status{Name: "it", Leading: true, Token: m.Token, Lag: -1, LastError: "é'"}})
	}
	require.Nil(s, s.look("it").Report)
	got, err := report(s.a, first, "a")
	require.NoError(s, err)
	require.Equal(s, first, got, "a report changes nothing")
	now := s.look("it")
	require.True(s, now.ReportCurrent())
	require.Equal(s, processor.Report{Node: "a", At: time.UnixMilli(1700000000000).UTC(), Claim: first.Claim,
		Status: processor.Status{Name: "it", Leading: true, Token: 3, Lag: -1, LastError: "é'"}}, *now.Report)
	first = s.advance(s.a, "it", first, "1")
	require.True(s, s.look("it").ReportCurrent(), "batches go on")

	again := s.claim(s.b, "it", 3)
	require.Greater(s, again.Claim, first.Claim)
	require.False(s, s.look("it").ReportCurrent(), "another term with the same token")
	second := s.claim(s.b, "it", 4)
	_, err = report(s.a, first, "a")
	require.ErrorIs(s, err, processor.ErrFenced)
	got, err = report(s.b, second, "b")
	require.NoError(s, err)
	require.Equal(s, second, got)
	require.Equal(s, "b", s.look("it").Report.Node)
	require.NoError(s, s.b.Unfence(s.ctx, "it"))
	_, err = report(s.b, second, "b")
	require.ErrorIs(s, err, processor.ErrMoved)
	third := s.claim(s.a, "it", 1)
	_, err = report(s.a, third, "c")
	require.NoError(s, err)
	require.Equal(s, "c", s.look("it").Report.Node, "a smaller token, after tokens have begun anew")

	// A report shows requests.
	require.NoError(s, s.b.RequestPause(s.ctx, "it", processor.PauseRequest{Paused: true}))
	third = s.store("it", third, processor.Progress{Position: "7", Parked: []processor.Parked{{Position: "7"}}})
	require.NoError(s, s.b.RequestRetry(s.ctx, "it", "7"))
	got, err = report(s.a, third, "c")
	require.NoError(s, err)
	require.True(s, got.Paused)
	require.EqualValues(s, "7", got.Retry)
	require.False(s, s.look("it").PauseAcknowledged())
}

// checkRetries checks that a request for a retry stands until its event is handled, has failed again, or is dropped.
func checkRetries(s *suite) {
	require.ErrorIs(s, s.b.RequestRetry(s.ctx, "it", "1"), processor.ErrNotParked)
	_, err := s.b.ParkedEvent(s.ctx, "it", "1")
	require.ErrorIs(s, err, processor.ErrNotParked)
	record := func(p processor.Position) processor.Parked {
		return processor.Parked{Position: p, After: "0", Error: "oops", Attempts: 3, Token: 5}
	}
	m := s.claim(s.a, "it", 5)
	m = s.store("it", m, processor.Progress{Position: "9", Parked: []processor.Parked{record("1"), record("2"),
		record("/3"), record("4")}})
	require.Empty(s, m.Retry)
	require.NoError(s, s.b.RequestRetry(s.ctx, "it", "2"))
	require.NoError(s, s.b.RequestRetry(s.ctx, "it", "2"), "again")
	parked, err := s.b.Parked(s.ctx, "it")
	require.NoError(s, err)
	require.Len(s, parked, 4)
	for _, p := range parked {
		require.Equal(s, p.Position == "2", p.Retry)
		require.EqualValues(s, "0", p.After)
	}
	m = s.claim(s.a, "it", 5)
	require.EqualValues(s, "2", m.Retry)
	m = s.store("it", m, processor.Progress{Position: "9", Handled: []processor.Position{"2", "none"}})
	require.Empty(s, m.Retry)
	_, err = s.b.ParkedEvent(s.ctx, "it", "2")
	require.ErrorIs(s, err, processor.ErrNotParked, "it is handled")

	require.NoError(s, s.b.RequestRetry(s.ctx, "it", "/3"))
	m = s.advance(s.a, "it", m, "10")
	require.EqualValues(s, "/3", m.Retry, "the leader learns of it with its next batch")
	failed := record("/3")
	failed.Error, failed.Attempts = "oops again", 4
	m = s.store("it", m, processor.Progress{Position: "10", Failed: &failed})
	require.Empty(s, m.Retry)
	p, err := s.b.ParkedEvent(s.ctx, "it", "/3")
	require.NoError(s, err)
	require.Equal(s, "oops again", p.Error)
	require.Equal(s, 4, p.Attempts)
	require.False(s, p.Retry)

	require.NoError(s, s.b.RequestRetry(s.ctx, "it", "4"))
	require.NoError(s, s.b.Forget(s.ctx, "it", "4"))
	dropped := record("4")
	m = s.store("it", m, processor.Progress{Position: "10", Failed: &dropped})
	require.Empty(s, m.Retry)
	require.EqualValues(s, 2, s.look("it").Parked, "what was dropped meanwhile does not come back")

	require.NoError(s, s.b.RequestRetry(s.ctx, "it", "1"))
	m = s.claim(s.b, "it", 6)
	require.EqualValues(s, "1", m.Retry, "the next leader finds the request")
	again := record("1")
	m = s.store("it", m, processor.Progress{Position: "11", Parked: []processor.Parked{again}})
	require.Empty(s, m.Retry, "parked anew")
}

// checkReplays checks that a rewound checkpoint says up to where events may have been parked before.
func checkReplays(s *suite) {
	m := s.claim(s.a, "it", 5)
	require.NoError(s, s.b.Rewind(s.ctx, "it", ""))
	m = s.claim(s.a, "it", 5)
	require.Empty(s, m.Replay, "it was at the beginning")
	m = s.store("it", m, processor.Progress{Position: "5", Parked: []processor.Parked{{Position: "3"}, {Position: "4"}}})
	require.Empty(s, m.Replay)
	require.NoError(s, s.b.Rewind(s.ctx, "it", "2"))
	require.NoError(s, s.b.Rewind(s.ctx, "it", "1"))
	m = s.claim(s.a, "it", 5)
	require.EqualValues(s, "5", m.Replay, "the first rewind counts")
	require.EqualValues(s, "5", s.look("it").Replay)
	handled := make([]processor.Position, 100)
	for i := range handled {
		handled[i] = processor.Position(strconv.Itoa(1000 + i))
	}
	handled[50] = "3"
	m = s.store("it", m, processor.Progress{Position: "3", Replay: m.Replay, Handled: handled})
	require.EqualValues(s, "5", s.claim(s.b, "it", 5).Replay)
	m = s.claim(s.a, "it", 5)
	parked, err := s.b.Parked(s.ctx, "it")
	require.NoError(s, err)
	require.Len(s, parked, 1)
	require.EqualValues(s, "4", parked[0].Position)
	m = s.store("it", m, processor.Progress{Position: "5", Handled: []processor.Position{"4", "5"}})
	require.Empty(s, m.Replay)
	require.Empty(s, s.claim(s.b, "it", 5).Replay)
}

// checkLists checks that pages have all processors, once and in one order.
func checkLists(s *suite) {
	names := map[string]bool{"é %2F": true, "a/b": true, "a": true, "a'": true, randomText(512): true}
	for i := range 60 {
		names["n"+strconv.Itoa(i)] = true
	}
	for name := range names {
		s.store(name, s.claim(s.a, name, 7), processor.Progress{Position: "1",
			Parked: []processor.Parked{{Position: "1"}}})
		require.NoError(s, s.a.RequestPause(s.ctx, name, processor.PauseRequest{Paused: true, Reason: name}))
	}
	for _, limit := range []int{0, 1, 7, 1000} {
		seen, after := map[string]bool{}, ""
		for more := true; more; {
			var found []processor.Standing
			var err error
			found, more, err = s.b.List(s.ctx, processor.Query{After: after, Limit: limit})
			require.NoError(s, err)
			require.LessOrEqual(s, len(found), processor.Query{Limit: limit}.Number())
			for _, p := range found {
				require.False(s, seen[p.Name], p.Name)
				require.Equal(s, s.look(p.Name), p)
				require.EqualValues(s, 7, p.Token)
				require.EqualValues(s, 1, p.Parked)
				require.Equal(s, p.Name, p.Pause.Reason)
				seen[p.Name], after = true, p.Name
			}
			if limit == 1 && len(seen) == 5 {
				seen = names // that is enough
				break
			}
		}
		require.Equal(s, names, seen)
	}
}
