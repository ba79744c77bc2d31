package automation

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/processor"
)

func TestDecideResult(t *testing.T) {
	oops := errors.New("oops")
	unavailable, poison := fmt.Errorf("%w: x", processor.ErrUnavailable), fmt.Errorf("%w: x", processor.ErrPoison)
	unknown := &once.UnknownError{Name: "x"}
	pause := func(failures int) time.Duration { return time.Duration(failures) * time.Second }
	for _, c := range []struct {
		name                            string
		attempts, failures, maxAttempts int
		err                             error
		want                            Result
	}{
		{"success", 3, 5, 10, nil, Result{Outcome: Done}},
		{"first failure", 0, 0, 3, oops, Result{Outcome: Failed, Attempts: 1, Failures: 1, After: time.Second, Err: oops}},
		{"last failure", 2, 7, 3, oops, Result{Outcome: Parked, Attempts: 3, Failures: 8, Err: oops}},
		{"no limit", 99, 99, -1, oops, Result{Outcome: Failed, Attempts: 100, Failures: 100, After: 100 * time.Second,
			Err: oops}},
		{"no attempt", 2, 2, 3, unavailable, Result{Outcome: Failed, Attempts: 2, Failures: 3, After: 3 * time.Second,
			Err: unavailable}},
		{"poison", 0, 0, 3, poison, Result{Outcome: Parked, Attempts: 3, Failures: 1, Err: poison}},
		{"poison without a limit", 0, 0, -1, poison, Result{Outcome: Parked, Attempts: 1, Failures: 1, Err: poison}},
		{"unknown outcome", 1, 1, 9, unknown, Result{Outcome: Parked, Attempts: 9, Failures: 2, Err: unknown}},
	} {
		require.Equal(t, c.want, decideResult(c.attempts, c.failures, c.err, c.maxAttempts, pause), c.name)
	}
}
