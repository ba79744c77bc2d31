package ending

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

// A TTL of two seconds.
var times = Times{Stop: 500 * ms, Margin: 100 * ms}

func at(d time.Duration) Instant { return Instant{Boot: 1, Wall: 1}.Add(d) }

func TestGuard(t *testing.T) {
	t.Parallel()
	until := at(1980 * ms)
	for name, c := range map[string]struct {
		view View
		want Step
	}{
		"all is well":          {View{Now: at(0)}, Step{Within: look}},
		"soon":                 {View{Now: at(1300 * ms)}, Step{Within: 80 * ms}},
		"the deadline is near": {View{Now: at(1380 * ms)}, Step{Ask, Deadline, soon}},
		"asked a moment ago": {View{Now: at(1400 * ms), Asked: at(1380 * ms), Why: Deadline}, Step{Why: Deadline,
			Within: soon}},
		"a renewal comes too late": {View{Now: at(500 * ms), Asked: at(400 * ms), Why: Deadline}, Step{Why: Deadline,
			Within: soon}},
		"no time left": {View{Now: at(1880 * ms), Asked: at(1380 * ms), Why: Deadline}, Step{Kill,
			Deadline, soon}},
		"still there": {View{Now: at(1885 * ms), Asked: at(1380 * ms), Why: Deadline}, Step{Kill,
			Deadline, soon}},
		"paused past the deadline": {View{Now: at(time.Hour)}, Step{Kill, Deadline, soon}},
		"ordered":                  {View{Now: at(0), Ordered: true}, Step{Ask, Ordered, soon}},
		"ordered, and time to stop is over": {View{Now: at(500 * ms), Ordered: true, Asked: at(0), Why: Ordered}, Step{Kill,
			Ordered,
			soon}},
		"ordered, little time left": {View{Now: at(1879 * ms), Ordered: true}, Step{Ask, Ordered, soon}},
		"ordered just before the deadline": {View{Now: at(1878 * ms), Ordered: true, Asked: at(1877 * ms), Why: Ordered},
			Step{Why: Ordered, Within: 2 * ms}},
		"hurried": {View{Now: at(0), Hurry: true}, Step{Kill, Hurried, soon}},
		"asked, and hurried then": {View{Now: at(ms), Hurry: true, Ordered: true, Asked: at(0), Why: Ordered}, Step{Kill,
			Ordered, soon}},
		"hurried, and others are left": {View{Now: at(0), Hurry: true, Exited: true}, Step{Kill, Exited, soon}},
		"alone":                        {View{Now: at(0), Alone: true}, Step{Ask, Alone, soon}},
		"others are left":              {View{Now: at(0), Exited: true}, Step{Ask, Exited, soon}},
		"exited, and alone since": {View{Now: at(0), Exited: true, Alone: true, Asked: at(-ms), Why: Exited},
			Step{Why: Exited, Within: soon}},
		"gone":            {View{Now: at(0), Exited: true, Gone: true}, Step{Do: Leave}},
		"gone when asked": {View{Now: at(0), Gone: true, Why: Ordered}, Step{Do: Leave, Why: Ordered}},
	} {
		c.view.Until = until
		require.Equal(t, c.want, times.Guard(c.view), name)
	}
	// One clock is enough, because the other may stand still or be set back.
	for _, now := range []Instant{{Boot: until.Boot}, {Wall: until.Wall}} {
		require.Equal(t, Kill, times.Guard(View{Now: now, Until: until}).Do)
	}
}

func TestHolder(t *testing.T) {
	t.Parallel()
	until := at(1980 * ms)
	for name, c := range map[string]struct {
		hold Hold
		want Step
	}{
		"all is well":               {Hold{Now: at(0)}, Step{Within: look}},
		"lost":                      {Hold{Now: at(0), Lost: true}, Step{Do: Ask, Within: soon}},
		"lost, and ordered":         {Hold{Now: at(0), Lost: true, Ordered: true}, Step{Within: look}},
		"the guard is gone":         {Hold{Now: at(0), Unguarded: true}, Step{Do: Kill, Within: soon}},
		"the guard's time":          {Hold{Now: at(1900 * ms)}, Step{Within: 30 * ms}},
		"the guard has not done it": {Hold{Now: at(1930 * ms)}, Step{Do: Kill, Within: soon}},
		"asked to end":              {Hold{Now: at(0), Asked: at(-time.Hour)}, Step{Within: look}},
		"asked twice":               {Hold{Now: at(0), Asked: at(-ms), Again: true}, Step{Do: Hurry, Within: soon}},
		"asked twice, and ordered":  {Hold{Now: at(0), Asked: at(-ms), Again: true, Hurried: true}, Step{Within: look}},
		"lost, and asked twice":     {Hold{Now: at(0), Lost: true, Asked: at(-ms), Again: true}, Step{Do: Ask, Within: soon}},
		"gone":                      {Hold{Now: at(time.Hour), Gone: true, Lost: true}, Step{Do: Leave}},
	} {
		c.hold.Until = until
		require.Equal(t, c.want, times.Holder(c.hold), name)
	}
}

func TestGracePeriodOfTheHolder(t *testing.T) {
	t.Parallel()
	times := times
	times.GracePeriod = time.Second
	for after, want := range map[time.Duration]Step{
		0: {Within: look}, 900 * ms: {Within: 100 * ms}, time.Second: {Do: Hurry, Within: soon}, time.Hour: {Do: Hurry,
			Within: soon},
	} {
		now := at(time.Minute).Add(after)
		hold := Hold{Now: now, Until: now.Add(2 * time.Second), Asked: at(time.Minute)}
		require.Equal(t, want, times.Holder(hold), after)
		hold.Hurried = true
		require.Equal(t, Step{Within: look}, times.Holder(hold), after)
		hold.Hurried, hold.Asked = false, Instant{}
		require.Equal(t, Step{Within: look}, times.Holder(hold), "nobody asked")
	}
}

// For any orders, and any times of its steps, a guard never goes back after it asked. It kills when no more
// than the margin is left, and never sleeps past that instant.
func TestGuardIsInTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		span := func(most time.Duration, label string) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, label))
		}
		times := Times{Stop: span(time.Second, "stop"), Margin: span(200*ms, "margin")}
		v := View{Now: at(0), Until: at(span(3*time.Second, "until"))}
		killed := false
		for range 200 {
			step := times.Guard(v)
			killAt := v.Until.Add(-times.Margin)
			left := v.Now.Until(killAt)
			if v.Gone {
				require.Equal(t, Leave, step.Do)
				return
			}
			require.NotEqual(t, Leave, step.Do)
			require.Positive(t, step.Within)
			if left <= 0 || v.Hurry {
				require.Equal(t, Kill, step.Do)
			} else if step.Do == Nothing {
				require.LessOrEqual(t, step.Within, left, "it would sleep too long")
			}
			if killed {
				require.Equal(t, Kill, step.Do, "killed again until it is gone")
			}
			require.True(t, v.Why == "" || v.Why == step.Why, "the first reason stays")
			if v.Why = step.Why; step.Do == Ask {
				require.Equal(t, Instant{}, v.Asked, "asked once")
				v.Asked = v.Now
			}
			killed = killed || step.Do == Kill
			v.Now = v.Now.Add(max(span(step.Within, "slept"), 1))
			v.Ordered = v.Ordered || rapid.IntRange(0, 50).Draw(t, "ordered") == 0
			v.Hurry = v.Hurry || rapid.IntRange(0, 100).Draw(t, "hurried") == 0
			v.Alone = v.Alone || rapid.IntRange(0, 50).Draw(t, "alone") == 0
			v.Exited = v.Exited || rapid.IntRange(0, 50).Draw(t, "exited") == 0
			v.Gone = v.Exited && rapid.IntRange(0, 5).Draw(t, "gone") == 0
			if !v.Alone && !killed && rapid.IntRange(0, 3).Draw(t, "renewed") == 0 {
				v.Until = v.Until.Add(span(time.Second, "longer"))
			}
		}
	})
}
