//go:build unix

package main

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/test/leaktest"
)

// TestMain runs the program itself if the environment variable is set.
func TestMain(m *testing.M) {
	if os.Getenv("CRON_TEST_PROGRAM") != "" {
		main()
		return
	}
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

func TestCommandLine(t *testing.T) {
	for line, want := range map[string]string{
		"-schedule|* * * * *":                                    "name a command",
		"-schedule|@every 1m|--|true":                            "as in crontab(5)",
		"-schedule|61 * * * *|true":                              "as in crontab(5)",
		"-schedule|0 0 30 2 *|true":                              "no such day",
		"-schedule|CRON_TZ=UTC|true":                             "nothing after the time zone",
		"-schedule|* * * * *|./there-is-none":                    "cannot be run",
		"-schedule|* * * * *|-catch-up|0s|true":                  "a second or more",
		"-schedule|* * * * *|-name||true":                        "-name is empty; give the job one",
		"-nothing":                                               "not defined",
		"true":                                                   "as in crontab(5)",
		"-schedule|*/5 * * * *|--|echo|-n|hallo":                 "",
		"-schedule|* * * * * *|-name|x|echo|hallo":               "",
		"-schedule|CRON_TZ=Europe/Berlin * * * * *|echo|hallo|-": "",
	} {
		var help strings.Builder
		_, err := parse(strings.Split(line, "|"), &help)
		require.Empty(t, help.String(), line)
		if want == "" {
			require.NoError(t, err, line)
		} else {
			require.ErrorContains(t, err, want, line)
			require.NotContains(t, err.Error(), "\n", line)
		}
	}
}

func TestHelp(t *testing.T) {
	var help strings.Builder
	_, err := parse([]string{"-h"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, said := range []string{"usage: cron [flags] -- COMMAND", "CRON_DUE", "CRON_TOKEN", "-catch-up", "UTC"} {
		require.Contains(t, help.String(), said)
	}
}

func TestSchedulesAreInUTC(t *testing.T) {
	elsewhere := time.FixedZone("elsewhere", 5*3600)
	for spec, want := range map[string]string{
		"0 3 * * *":                       "2026-07-02T03:00:00Z",
		"CRON_TZ=Europe/Berlin 0 3 * * *": "2026-07-02T01:00:00Z",
	} {
		schedule, err := parseSchedule(spec)
		require.NoError(t, err)
		j := job{schedule: schedule, catchUp: time.Minute}
		from := time.Date(2026, 7, 2, 0, 30, 0, 0, time.UTC)
		require.Equal(t, want, j.firstDue(from.In(elsewhere)).Format(time.RFC3339), spec)
		next, _ := j.nextDue(from.In(elsewhere), from.In(elsewhere))
		require.Equal(t, want, next.Format(time.RFC3339), spec)
	}
}

func TestWhatIsServedNext(t *testing.T) {
	schedule, err := parseSchedule("* * * * *")
	require.NoError(t, err)
	j := job{schedule: schedule, catchUp: 5 * time.Minute}
	at := func(minute, second int) time.Time { return time.Date(2026, 7, 2, 12, minute, second, 0, time.UTC) }
	require.Equal(t, at(3, 0), j.firstDue(at(3, 0)), "the last that was begun is looked at again")
	require.Equal(t, at(4, 0), j.firstDue(at(3, 1)), "the first leader begins after it started")
	for _, c := range []struct {
		due, now, want time.Time
		skipped        bool
	}{
		{at(3, 0), at(3, 1), at(4, 0), false},
		{at(3, 0), at(9, 0), at(4, 0), false},
		{at(3, 0), at(9, 1), at(5, 0), true},
		{at(3, 0), at(1, 0), at(4, 0), false}, // this machine's clock is slow
	} {
		next, skipped := j.nextDue(c.due, c.now)
		require.Equal(t, c.want, next, c.now)
		require.Equal(t, c.skipped, skipped, c.now)
		require.False(t, j.isTooLate(next, c.now))
	}
}

func TestMarksAreKeptForLongerThanTimesAreServed(t *testing.T) {
	for _, catchUp := range []time.Duration{time.Second, time.Hour, 30 * 24 * time.Hour} {
		require.GreaterOrEqual(t, retention(catchUp), 2*catchUp+24*time.Hour)
	}
}
