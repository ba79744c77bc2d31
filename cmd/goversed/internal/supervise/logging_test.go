//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/supervise/ending"
	"github.com/goverse/goverse/internal/leasequeue/elections"
)

func TestSecondSignal(t *testing.T) {
	t.Parallel()
	at := now()
	w := endRequest{}.addSignal(at)
	require.Equal(t, endRequest{asked: at}, w)
	require.Equal(t, w, w.addSignal(at.Add(cli.SecondSignalAfter-1)), "the same request")
	w = w.addSignal(at.Add(cli.SecondSignalAfter))
	require.Equal(t, endRequest{asked: at, again: true}, w)
	require.Equal(t, w, w.addSignal(at))
}

func TestReasonForTheEnd(t *testing.T) {
	t.Parallel()
	const ttl = 8 * time.Second
	lost := &session.LostError{Reason: session.ReasonRevoked}
	require.Equal(t, elections.ErrGaveWay, lossReason(&leaderelection.TermOverError{Election: "e", Token: 3,
		Err: elections.ErrGaveWay}, 0, ttl, false))
	require.Equal(t, lost, lossReason(lost, time.Hour, ttl, true))
	require.Equal(t, errUnconfirmed, lossReason(nil, ttl/8-1, ttl, false))
	require.Equal(t, errPaused, lossReason(nil, ttl/8, ttl, false))
	require.Equal(t, errGuardPaused, lossReason(nil, time.Hour, ttl, true))
}

// Each kind of end is logged in one line at the right level, or left to the final error.
func TestWhatIsSaidOfTheEnd(t *testing.T) {
	t.Parallel()
	self, lost := guardReport{Gone: true, Code: 3}, guardReport{Gone: true, Code: 143, Why: ending.EndOrdered}
	for name, c := range map[string]struct {
		job       job
		again     bool
		requested bool
		says      string
	}{
		"by itself": {job{begun: true, lastReport: self}, false, false,
			"[INFO]  the command ended: election=e token=7 code=3\n"},
		"by a signal": {job{begun: true, lastReport: lost}, false, true,
			"[INFO]  the command ended: election=e token=7 code=143\n"},
		"lost": {job{begun: true, lastReport: lost, lossReason: errUnconfirmed}, true, false,
			"[WARN]  leadership was lost and the command ended, campaigning again: election=e token=7 reason=\"the " +
				"session was not confirmed in time\"\n"},
		"lost before": {job{lastReport: neverStarted, lossReason: errors.New("x")}, true, false,
			"[WARN]  leadership was lost before the command began, campaigning again: election=e token=7 reason=x\n"},
		"transferred": {job{begun: true, lastReport: lost, lossReason: elections.ErrGaveWay}, true, false,
			"[INFO]  leadership goes to another candidate as was asked for, and the command was ended; campaigning again: " +
				"election=e token=7\n"},
		"a lock was lost": {job{begun: true, lastReport: lost}, false, false, ""},
		"refused": {job{begun: true, lastReport: guardReport{Gone: true, Code: 126, Refused: []byte("no")}}, false,
			false, ""},
	} {
		var log bytes.Buffer
		r := &runner{cfg: Config{Election: "e", Logger: hclog.New(&hclog.LoggerOptions{Output: &log, DisableTime: true})},
			endRequested: c.requested}
		r.logEnd(&heldClaim{token: 7}, &c.job, c.again)
		require.Equal(t, c.says, log.String(), name)
	}
}
