package processor

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goverse/goverse/internal/backoff"
)

var errOops = errors.New("oops")

func TestWhatIsNext(t *testing.T) {
	t.Parallel()
	events := []Position{"1", "2", "3", "4"}
	failed := failureState{}.withFailure("3", errOops, causeEvent)
	for name, tc := range map[string]struct {
		trouble failureState
		want    batchStep
	}{
		"nothing is wrong":     {failureState{}, batchStep{count: 4}},
		"what comes before it": {failed, batchStep{count: 2}},
		"alone":                {failureState{}.withFailure("1", errOops, causeEvent), batchStep{count: 1, failures: 1}},
		"alone, the second time": {failed.withFailure("1", errOops, causeEvent).withFailure("1", errOops, causeEvent),
			batchStep{count: 1,
				failures: 2}},
		"given up":      {failureState{at: "1", failures: 3, attempts: 3}, batchStep{count: 1, park: true}},
		"not its fault": {failureState{at: "1", failures: 9, attempts: 2}, batchStep{count: 1, failures: 9}},
		"hopeless": {failureState{}.withFailure("1", errOops, causePoison),
			batchStep{count: 1, park: true}},
		"given up, but for an outage": {failureState{at: "1", failures: 3, attempts: 3}.withOutage(),
			batchStep{count: 1, failures: 3}},
		"hopeless, but for an outage": {failureState{}.withFailure("1", errOops, causePoison).withOutage(),
			batchStep{count: 1, failures: 1}},
		"it had its further attempt": {failureState{at: "1", failures: 3, attempts: 3}.
			withOutage().withFailure("1", errOops, causeEvent),
			batchStep{count: 1, park: true}},
		"it has gone from the source": {failureState{at: "0", failures: 3, attempts: 3}, batchStep{count: 4}},
		"nobody knows which":          {failureState{}.withRefusal(events, errOops), batchStep{count: 2, failures: 1}},
		"nobody knows which, of those": {failureState{}.withRefusal(events, errOops).withRefusal(events[:2], errOops),
			batchStep{count: 1,
				failures: 2}},
		"it was the only one": {failureState{}.withRefusal(events[:1], errOops), batchStep{count: 1, failures: 1}},
	} {
		require.Equal(t, tc.want, tc.trouble.nextStep(events, 3), name)
	}
	require.Equal(t, batchStep{count: 1, failures: 99}, failureState{at: "1", failures: 99,
		attempts: 99}.nextStep(events, -1),
		"never given up")
}

func TestTroublePasses(t *testing.T) {
	t.Parallel()
	failed := failureState{}.withFailure("3", errOops, causeEvent)
	require.Equal(t, failed, failed.withSuccess([]Position{"1", "2"}, 10))
	require.Equal(t, failureState{}, failed.withSuccess([]Position{"3"}, 10))
	few := failureState{}.withRefusal([]Position{"1", "2", "3", "4", "5", "6"}, errOops)
	few = few.withSuccess([]Position{"1", "2", "3"}, 10)
	require.Equal(t, failureState{limit: 6}, few)
	require.Equal(t, failureState{}, few.withSuccess([]Position{"4"}, 10), "as many as ever")
}

// outcome determines the result of handling an event.
type outcome struct {
	fails   int          // number of failures
	how     failureCause // their verdict
	refuses bool         // fails when it is committed, not by itself
}

const ever = 1 << 30

// Whatever fails, each event either takes effect once, in order, or is parked after the configured attempts,
// and the run ends.
func TestAllIsHandledOrGivenUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		undoes := rapid.Bool().Draw(t, "undoes")
		batch := rapid.IntRange(1, 9).Draw(t, "batch")
		attempts := rapid.IntRange(1, 4).Draw(t, "attempts")
		outcomes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) outcome {
			return outcome{fails: rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, 5, ever}).Draw(t, "fails"),
				how:     rapid.SampledFrom([]failureCause{causeEvent, causeEvent, causeOther, causePoison}).Draw(t, "how"),
				refuses: undoes && rapid.IntRange(0, 4).Draw(t, "refuses") == 0}
		}), 0, 30).Draw(t, "outcomes")
		for i, f := range outcomes {
			if f.how == causeOther && f.fails == ever {
				outcomes[i].fails = 7 // more would block, as intended
			}
		}
		effects, parked := simulate(t, outcomes, batch, attempts, undoes)
		all := slices.SortedFunc(slices.Values(slices.Concat(effects, parked)), byNumber)
		require.Len(t, all, len(outcomes), "each once, one way or the other")
		require.True(t, slices.IsSortedFunc(effects, byNumber))
		unclear := slices.ContainsFunc(outcomes, func(f outcome) bool { return f.refuses })
		for i, f := range outcomes {
			at := strconv.Itoa(i + 1)
			require.Equal(t, at, all[i])
			var handled bool
			switch {
			case f.fails == 0, f.how == causeOther && !f.refuses, (f.how != causePoison || f.refuses) && f.fails < attempts:
				handled = true
			case f.fails != ever && unclear:
				continue // it had more attempts while an earlier event was searched for
			}
			require.Equal(t, handled, slices.Contains(effects, at), at)
		}
	})
}

func byNumber(a, b string) int {
	x, _ := strconv.Atoi(a)
	y, _ := strconv.Atoi(b)
	return x - y
}

// simulate processes the events as term.process does.
func simulate(t *rapid.T, outcomes []outcome, batch, attempts int, undoes bool) (effects, parked []string) {
	fails := make([]int, len(outcomes))
	at := 0
	var now failureState
	for steps := 0; at < len(outcomes); steps++ {
		require.Less(t, steps, 100*len(outcomes)+100, "it comes to no end")
		limit := batch
		if now.limit > 0 {
			limit = min(limit, now.limit)
		}
		var read []Position
		for i := at + 1; i <= min(at+limit, len(outcomes)); i++ {
			read = append(read, Position(strconv.Itoa(i)))
		}
		do := now.nextStep(read, attempts)
		require.Positive(t, do.count)
		if do.park {
			require.Equal(t, 1, do.count)
			f := outcomes[at]
			if f.how != causePoison || f.refuses {
				require.Equal(t, attempts, now.attempts)
			}
			parked = append(parked, string(read[0]))
			at++
			now = now.withSuccess(read[:1], batch)
			continue
		}
		var tx []string
		failed, refused := -1, false
		for i := range do.count {
			f := outcomes[at+i]
			if f.fails > fails[at+i] {
				if !f.refuses {
					fails[at+i]++
					failed = i
					break
				}
				refused = true
				if do.count == 1 {
					fails[at]++
				}
			}
			tx = append(tx, string(read[i]))
		}
		switch {
		case failed >= 0:
			now = now.withFailure(read[failed], errOops, outcomes[at+failed].how)
			if !undoes {
				effects = append(effects, tx...)
				if failed > 0 {
					now = now.withSuccess(read[:failed], batch)
				}
				at += failed
			}
		case refused:
			now = now.withRefusal(read[:do.count], errOops)
		default:
			effects = append(effects, tx...)
			now = now.withSuccess(read[:do.count], batch)
			at += do.count
		}
	}
	return effects, parked
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	require.Equal(t, Backoff{100 * time.Millisecond, 30 * time.Second}, Backoff{}.withDefaults())
	require.Equal(t, Backoff{time.Minute, time.Minute}, Backoff{Min: time.Minute}.withDefaults())
	require.Equal(t, Backoff{time.Millisecond, time.Millisecond}, Backoff{Max: time.Millisecond}.withDefaults())
	b := Backoff{time.Second, 5 * time.Second}
	for i, want := range []time.Duration{1, 2, 4, 5, 5} {
		require.Equal(t, want*time.Second, b.policy().Delay(i+1, backoff.NoJitter))
	}
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{Min: time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "min")),
			Max: time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "max"))}.withDefaults()
		if b.Min > b.Max {
			t.Skip()
		}
		d := b.policy().Delay(rapid.IntRange(1, 200).Draw(t, "failures"), rapid.Float64Range(0, 1).Draw(t, "random"))
		require.LessOrEqual(t, d, b.Max+b.Max/5+1)
		require.GreaterOrEqual(t, d, b.Min-b.Min/5-1)
	})
}

func TestPositions(t *testing.T) {
	t.Parallel()
	check := func(after Position, next ...Position) error { return checkPositions(after, next) }
	require.NoError(t, check(""))
	require.NoError(t, check("", "1", "2", "ü/7"))
	for _, bad := range [][]Position{{""}, {"0"}, {"1", "1"}, {"1", ""}, {"a\x00"}, {"\xff"},
		{Position(fmt.Sprintf("%0*d", MaxPosition+1, 1))}} {
		require.ErrorIs(t, check("0", bad...), ErrBadPosition, bad)
	}
}

func TestKeepable(t *testing.T) {
	t.Parallel()
	long := slices.Repeat([]byte("ü"), maxError)
	require.Len(t, storableText(errors.New("x"+string(long))), maxError-1, "no half a letter")
	require.Equal(t, "a b", storableText(errors.New("a\x00\xff b")))
}
