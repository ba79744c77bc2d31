package processor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/lifecycle"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	good := processor.Config[int]{Name: "views", Source: &numbers{}, Handler: (&handled{}).handle,
		Checkpoint: &processor.Memory{}}
	_, err := processor.New(good)
	require.NoError(t, err)
	for says, change := range map[string]func(*processor.Config[int]){
		"Source is nil":         func(c *processor.Config[int]) { c.Source = nil },
		"Handler is nil":        func(c *processor.Config[int]) { c.Handler = nil },
		"Checkpoint is nil":     func(c *processor.Config[int]) { c.Checkpoint = nil },
		"BatchSize is negative": func(c *processor.Config[int]) { c.BatchSize = -1 },
		"or CheckInterval":      func(c *processor.Config[int]) { c.PollInterval = -1 },
		"CheckInterval is":      func(c *processor.Config[int]) { c.CheckInterval = -1 },
		"Backoff.Min or Max":    func(c *processor.Config[int]) { c.Backoff.Max = -1 },
		"longer than Max":       func(c *processor.Config[int]) { c.Backoff = processor.Backoff{Min: 2, Max: 1} },
	} {
		bad := good
		change(&bad)
		_, err := processor.New(bad)
		require.ErrorIs(t, err, processor.ErrBadConfig, says)
		require.ErrorContains(t, err, says)
	}
	for _, name := range []string{"", strings.Repeat("n", 513), "a\x00b", "\xff"} {
		good.Name = name
		_, err = processor.New(good)
		require.ErrorIs(t, err, lifecycle.ErrBadName, name)
	}

	_, err = processor.NewEtcd(processor.EtcdConfig{})
	require.ErrorIs(t, err, processor.ErrBadConfig)
	_, err = processor.NewEtcd(processor.EtcdConfig{Client: connect(t, "127.0.0.1:1").client, Prefix: "bad"})
	require.ErrorIs(t, err, processor.ErrBadConfig)
}

// A processor works with default settings.
func TestDefaults(t *testing.T) {
	t.Parallel()
	done := &handled{}
	p, err := processor.New(processor.Config[int]{Name: "views", Source: &numbers{last: 250}, Handler: done.handle,
		Checkpoint: &processor.Memory{}})
	require.NoError(t, err)
	require.Equal(t, processor.Status{Name: "views", Lag: -1}, p.Status())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	eventually(t, func() bool { return p.Status().Position == "250" }, "all is handled")
	require.ErrorIs(t, p.Run(ctx), processor.ErrRunning)
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, upTo(250), done.all())
	s := p.Status()
	require.Positive(t, s.PerSecond)
	require.WithinDuration(t, time.Now(), s.HandledAt, patience)
	require.EqualValues(t, 3, s.Batches, "of 100 at most")
	require.EqualValues(t, 250, s.Handled)
	require.False(t, s.Leading)
}
