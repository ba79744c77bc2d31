package processor_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

// A running processor that is rewound handles all events again.
func TestRewound(t *testing.T) {
	t.Parallel()
	source, done, checkpoint := &numbers{last: 5}, &handled{}, &processor.Memory{}
	p, end := run(t, processor.Config[int]{Name: "it", Source: source, Handler: done.handle, Checkpoint: checkpoint})
	eventually(t, func() bool { return p.Status().Position == "5" }, "all is handled")
	require.NoError(t, checkpoint.Rewind(t.Context(), "it", ""))
	source.grow(1)
	eventually(t, func() bool { return len(done.all()) >= 6+6 }, "all is handled again")
	end()
	require.Equal(t, slices.Concat(upTo(6), upTo(6)), done.all())
	require.EqualValues(t, "6", p.Status().Position)
}

// It also does so if no new events come.
func TestRewoundWhereNothingComes(t *testing.T) {
	t.Parallel()
	done, checkpoint := &handled{}, &processor.Memory{}
	p, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 5}, Handler: done.handle,
		Checkpoint:   checkpoint,
		PollInterval: time.Hour, CheckInterval: time.Millisecond})
	eventually(t, func() bool { return p.Status().Position == "5" }, "all is handled")
	require.NoError(t, checkpoint.Rewind(t.Context(), "it", "2"))
	eventually(t, func() bool { return len(done.all()) >= 5+3 }, "some is handled again")
	token := p.Status().Token
	_, err := checkpoint.Claim(t.Context(), "it", token+100)
	require.NoError(t, err)
	eventually(t, func() bool { return p.Status().Failures > 0 }, "it notices that another has claimed")
	end()
	require.Contains(t, p.Status().LastError, processor.ErrFenced.Error())
	require.Equal(t, slices.Concat(upTo(5), []int{3, 4, 5}), done.all()[:8])
}
