//go:build unix

package integration

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ledger records the acknowledged increments by one: for each counter, the sums in the replies.
type ledger struct {
	mu   sync.Mutex
	sums map[string][]int64
}

func (l *ledger) acknowledged(key string, sum int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sums == nil {
		l.sums = map[string][]int64{}
	}
	l.sums[key] = append(l.sums[key], sum)
}

func (l *ledger) increments() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sums := range l.sums {
		n += len(sums)
	}
	return n
}

// judge compares the acknowledged increments with the stored sums: each took effect once, and nothing else did.
// All increments must have been acknowledged.
func (l *ledger) judge(stored map[string]int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []error
	for key, sum := range stored {
		if n := int64(len(l.sums[key])); sum > n {
			found = append(found, fmt.Errorf("%s: %d increments were acknowledged, and %d are stored: some were doubled",
				key, n, sum))
		}
	}
	for key, sums := range l.sums {
		if n := int64(len(sums)); stored[key] < n {
			found = append(found, fmt.Errorf("%s: %d increments were acknowledged, and %d are stored: some were lost", key, n,
				stored[key]))
		}
		slices.Sort(sums)
		for i := range sums {
			if i > 0 && sums[i] == sums[i-1] {
				found = append(found, fmt.Errorf("%s: two increments led to the sum %d: one was lost", key, sums[i]))
			}
		}
	}
	return errors.Join(found...)
}

// The judge detects faults.
func TestObjectsJudge(t *testing.T) {
	var l ledger
	for sum := range int64(3) {
		l.acknowledged("a", 3-sum)
	}
	require.NoError(t, l.judge(map[string]int64{"a": 3, "claimed": 0}))
	require.ErrorContains(t, l.judge(map[string]int64{"a": 4}), "doubled")
	require.ErrorContains(t, l.judge(map[string]int64{"a": 3, "b": 1}), "doubled")
	require.ErrorContains(t, l.judge(map[string]int64{"a": 2}), "lost")
	require.ErrorContains(t, l.judge(nil), "lost")
	l.acknowledged("a", 3)
	require.ErrorContains(t, l.judge(map[string]int64{"a": 4}), "two increments led to the sum 3")
}

// quantile returns a quantile of all, which it sorts.
func quantile(all []time.Duration, part float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(part*float64(len(all))))]
}

// quantiles summarises the durations.
func quantiles(all []time.Duration) string {
	return fmt.Sprintf("p50 %v, p99 %v, max %v of %d", brief(quantile(all, 0.5)), brief(quantile(all, 0.99)),
		brief(quantile(all, 1)), len(all))
}

func brief(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
