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

func instantAt(d time.Duration) Instant { return Instant{Boot: 1, Wall: 1}.Add(d) }

func TestGuard(t *testing.T) {
	t.Parallel()
	until := instantAt(1980 * ms)
	for name, c := range map[string]struct {
		view GuardView
		want Step
	}{
		"all is well":          {GuardView{Now: instantAt(0)}, Step{CheckWithin: idleInterval}},
		"soon":                 {GuardView{Now: instantAt(1300 * ms)}, Step{CheckWithin: 80 * ms}},
		"the deadline is near": {GuardView{Now: instantAt(1380 * ms)}, Step{SendTerm, DeadlineReached, endInterval}},
		"asked a moment ago": {GuardView{Now: instantAt(1400 * ms), Asked: instantAt(1380 * ms), Reason: DeadlineReached},
			Step{Reason: DeadlineReached,
				CheckWithin: endInterval}},
		"a renewal comes too late": {GuardView{Now: instantAt(500 * ms), Asked: instantAt(400 * ms),
			Reason: DeadlineReached}, Step{Reason: DeadlineReached,
			CheckWithin: endInterval}},
		"no time left": {GuardView{Now: instantAt(1880 * ms), Asked: instantAt(1380 * ms), Reason: DeadlineReached},
			Step{SendKill,
				DeadlineReached, endInterval}},
		"still there": {GuardView{Now: instantAt(1885 * ms), Asked: instantAt(1380 * ms), Reason: DeadlineReached},
			Step{SendKill,
				DeadlineReached, endInterval}},
		"paused past the deadline": {GuardView{Now: instantAt(time.Hour)}, Step{SendKill, DeadlineReached, endInterval}},
		"ordered":                  {GuardView{Now: instantAt(0), EndOrdered: true}, Step{SendTerm, EndOrdered, endInterval}},
		"ordered, and time to stop is over": {GuardView{Now: instantAt(500 * ms), EndOrdered: true, Asked: instantAt(0),
			Reason: EndOrdered}, Step{SendKill,
			EndOrdered,
			endInterval}},
		"ordered, little time left": {GuardView{Now: instantAt(1879 * ms), EndOrdered: true},
			Step{SendTerm, EndOrdered, endInterval}},
		"ordered just before the deadline": {GuardView{Now: instantAt(1878 * ms), EndOrdered: true,
			Asked: instantAt(1877 * ms), Reason: EndOrdered},
			Step{Reason: EndOrdered, CheckWithin: 2 * ms}},
		"hurried": {GuardView{Now: instantAt(0), KillOrdered: true}, Step{SendKill, KillOrdered, endInterval}},
		"asked, and hurried then": {GuardView{Now: instantAt(ms), KillOrdered: true, EndOrdered: true, Asked: instantAt(0),
			Reason: EndOrdered}, Step{SendKill,
			EndOrdered, endInterval}},
		"hurried, and others are left": {GuardView{Now: instantAt(0), KillOrdered: true, Exited: true},
			Step{SendKill, Exited, endInterval}},
		"alone": {GuardView{Now: instantAt(0), HolderGone: true},
			Step{SendTerm, HolderGone, endInterval}},
		"others are left": {GuardView{Now: instantAt(0), Exited: true}, Step{SendTerm, Exited, endInterval}},
		"exited, and alone since": {GuardView{Now: instantAt(0), Exited: true, HolderGone: true, Asked: instantAt(-ms),
			Reason: Exited},
			Step{Reason: Exited, CheckWithin: endInterval}},
		"gone": {GuardView{Now: instantAt(0), Exited: true, Gone: true}, Step{Action: LeaveGuard}},
		"gone when asked": {GuardView{Now: instantAt(0), Gone: true, Reason: EndOrdered},
			Step{Action: LeaveGuard, Reason: EndOrdered}},
	} {
		c.view.Until = until
		require.Equal(t, c.want, times.NextGuardStep(c.view), name)
	}
	// One clock is enough, because the other may stand still or be set back.
	for _, now := range []Instant{{Boot: until.Boot}, {Wall: until.Wall}} {
		require.Equal(t, SendKill, times.NextGuardStep(GuardView{Now: now, Until: until}).Action)
	}
}

func TestHolder(t *testing.T) {
	t.Parallel()
	until := instantAt(1980 * ms)
	for name, c := range map[string]struct {
		hold HolderView
		want Step
	}{
		"all is well": {HolderView{Now: instantAt(0)}, Step{CheckWithin: idleInterval}},
		"lost": {HolderView{Now: instantAt(0), Lost: true},
			Step{Action: SendTerm, CheckWithin: endInterval}},
		"lost, and ordered": {HolderView{Now: instantAt(0), Lost: true, EndOrdered: true},
			Step{CheckWithin: idleInterval}},
		"the guard is gone": {HolderView{Now: instantAt(0), Unguarded: true},
			Step{Action: SendKill, CheckWithin: endInterval}},
		"the guard's time": {HolderView{Now: instantAt(1900 * ms)}, Step{CheckWithin: 30 * ms}},
		"the guard has not done it": {HolderView{Now: instantAt(1930 * ms)},
			Step{Action: SendKill, CheckWithin: endInterval}},
		"asked to end": {HolderView{Now: instantAt(0), Asked: instantAt(-time.Hour)},
			Step{CheckWithin: idleInterval}},
		"asked twice": {HolderView{Now: instantAt(0), Asked: instantAt(-ms), Again: true},
			Step{Action: OrderKill, CheckWithin: endInterval}},
		"asked twice, and ordered": {HolderView{Now: instantAt(0), Asked: instantAt(-ms), Again: true, KillOrdered: true},
			Step{CheckWithin: idleInterval}},
		"lost, and asked twice": {HolderView{Now: instantAt(0), Lost: true, Asked: instantAt(-ms), Again: true},
			Step{Action: SendTerm, CheckWithin: endInterval}},
		"gone": {HolderView{Now: instantAt(time.Hour), Gone: true, Lost: true},
			Step{Action: LeaveGuard}},
	} {
		c.hold.Until = until
		require.Equal(t, c.want, times.NextHolderStep(c.hold), name)
	}
}

func TestGracePeriodOfTheHolder(t *testing.T) {
	t.Parallel()
	times := times
	times.GracePeriod = time.Second
	for after, want := range map[time.Duration]Step{
		0: {CheckWithin: idleInterval}, 900 * ms: {CheckWithin: 100 * ms},
		time.Second: {Action: OrderKill, CheckWithin: endInterval}, time.Hour: {Action: OrderKill,
			CheckWithin: endInterval},
	} {
		now := instantAt(time.Minute).Add(after)
		hold := HolderView{Now: now, Until: now.Add(2 * time.Second), Asked: instantAt(time.Minute)}
		require.Equal(t, want, times.NextHolderStep(hold), after)
		hold.KillOrdered = true
		require.Equal(t, Step{CheckWithin: idleInterval}, times.NextHolderStep(hold), after)
		hold.KillOrdered, hold.Asked = false, Instant{}
		require.Equal(t, Step{CheckWithin: idleInterval}, times.NextHolderStep(hold), "nobody asked")
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
		v := GuardView{Now: instantAt(0), Until: instantAt(span(3*time.Second, "until"))}
		killed := false
		for range 200 {
			step := times.NextGuardStep(v)
			killAt := v.Until.Add(-times.Margin)
			left := v.Now.Until(killAt)
			if v.Gone {
				require.Equal(t, LeaveGuard, step.Action)
				return
			}
			require.NotEqual(t, LeaveGuard, step.Action)
			require.Positive(t, step.CheckWithin)
			if left <= 0 || v.KillOrdered {
				require.Equal(t, SendKill, step.Action)
			} else if step.Action == DoNothing {
				require.LessOrEqual(t, step.CheckWithin, left, "it would sleep too long")
			}
			if killed {
				require.Equal(t, SendKill, step.Action, "killed again until it is gone")
			}
			require.True(t, v.Reason == "" || v.Reason == step.Reason, "the first reason stays")
			if v.Reason = step.Reason; step.Action == SendTerm {
				require.Equal(t, Instant{}, v.Asked, "asked once")
				v.Asked = v.Now
			}
			killed = killed || step.Action == SendKill
			v.Now = v.Now.Add(max(span(step.CheckWithin, "slept"), 1))
			v.EndOrdered = v.EndOrdered || rapid.IntRange(0, 50).Draw(t, "ordered") == 0
			v.KillOrdered = v.KillOrdered || rapid.IntRange(0, 100).Draw(t, "hurried") == 0
			v.HolderGone = v.HolderGone || rapid.IntRange(0, 50).Draw(t, "alone") == 0
			v.Exited = v.Exited || rapid.IntRange(0, 50).Draw(t, "exited") == 0
			v.Gone = v.Exited && rapid.IntRange(0, 5).Draw(t, "gone") == 0
			if !v.HolderGone && !killed && rapid.IntRange(0, 3).Draw(t, "renewed") == 0 {
				v.Until = v.Until.Add(span(time.Second, "longer"))
			}
		}
	})
}
