package cluster

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

func (h *history) reportBy(report func() []processor.Status) { h.report.Store(&report) }

// A list of processors that does not return holds nothing up, is not called again meanwhile, and counts again later.
func TestReportedProcessorsHang(t *testing.T) {
	t.Parallel()
	var h history
	require.Empty(t, h.processors(t.Context()), "none are reported")
	called, release := make(chan struct{}, 10), make(chan struct{})
	h.reportBy(func() []processor.Status {
		called <- struct{}{}
		<-release
		return []processor.Status{{Name: "mails"}}
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Empty(t, h.processors(ended))
	<-called
	require.Empty(t, h.processors(t.Context()), "it does not return in time")
	require.Empty(t, called)
	close(release)
	require.Eventually(t, func() bool { return len(h.processors(t.Context())) == 1 }, reportTimeout*10, reportTimeout/100)
}

func TestReportedProcessorsFail(t *testing.T) {
	t.Parallel()
	var h history
	h.reportBy(func() []processor.Status { panic("broken") })
	require.Empty(t, h.processors(t.Context()))
	h.reportBy(func() []processor.Status { runtime.Goexit(); return nil })
	require.Empty(t, h.processors(t.Context()))
	h.reportBy(nil)
	require.Empty(t, h.processors(t.Context()))
}
