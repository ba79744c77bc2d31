package processor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

// slowReport is a checkpoint whose first report gets its mark and is answered later. It counts the claims and reports.
type slowReport struct {
	processor.Memory
	got, answer     chan struct{}
	claims, reports atomic.Int64
}

func (s *slowReport) Claim(ctx context.Context, name string, token int64) (processor.Mark, error) {
	s.claims.Add(1)
	return s.Memory.Claim(ctx, name, token)
}

func (s *slowReport) Report(ctx context.Context, name string, r processor.Report) (processor.Mark, error) {
	at, err := s.Memory.Report(ctx, name, r)
	if s.reports.Add(1) == 1 {
		close(s.got)
		<-s.answer
	}
	return at, err
}

// A report that was answered after the next event was stored shows an old version. The leader does not claim the
// checkpoint again for that: its report, and with it the acknowledgement of a pause, would be that of a former claim.
func TestReportOfAnOldVersion(t *testing.T) {
	t.Parallel()
	source, done := &numbers{}, &handled{}
	checkpoint := &slowReport{got: make(chan struct{}), answer: make(chan struct{})}
	p, end := run(t, processor.Config[int]{Name: "it", Source: source, Checkpoint: checkpoint,
		CheckInterval: time.Millisecond, PollInterval: time.Millisecond, Handler: done.handle})
	<-checkpoint.got
	source.grow(3)
	eventually(t, func() bool { return p.Status().Position == "3" }, "the events are stored")
	close(checkpoint.answer)
	pauseIt(t, checkpoint)
	s, err := checkpoint.Look(t.Context(), "it")
	require.NoError(t, err)
	require.True(t, s.PauseAcknowledged())
	require.EqualValues(t, 1, checkpoint.claims.Load())
	end()
	require.Equal(t, upTo(3), done.all())
}
