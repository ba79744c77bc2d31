// Package logtest is a log, or another output, that a test reads while it is written.
package logtest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/logs/logqueue"
)

const (
	// patience is how long Await waits.
	patience = 30 * time.Second
	// looks is how often String waits for lines that were said and not written yet, for a second at most each time:
	// several times, since nothing but the time may have passed on a machine that is busy with something else.
	looks = 3
)

// Buffer holds what was written. Its methods are safe for concurrent use; the zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	logs []hclog.Logger // those that write into it
}

// Write adds p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String is all that was logged so far, also the lines of its loggers that others have queued.
func (b *Buffer) String() string {
	b.mu.Lock()
	logs := slices.Clone(b.logs)
	b.mu.Unlock()
	for _, log := range logs {
		for range looks {
			logqueue.Flush(context.Background(), log)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Logger writes lines of level info and above into the buffer, without the time.
func (b *Buffer) Logger() hclog.Logger {
	return b.LoggerOf(hclog.LoggerOptions{Level: hclog.Info, DisableTime: true})
}

// LoggerOf is a logger with these options that writes into the buffer. It has the queue that Goverse would put before
// it, so that String knows of the lines in that.
func (b *Buffer) LoggerOf(options hclog.LoggerOptions) hclog.Logger {
	options.Output = b
	log := logqueue.New(hclog.New(&options))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.logs = append(b.logs, log)
	return log
}

// Await waits until text was written, and fails the test if that takes too long.
func (b *Buffer) Await(t testing.TB, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(b.String(), text) }, patience, time.Millisecond,
		"not written: %q", text)
}

// Count is how often text was written.
func (b *Buffer) Count(text string) int { return strings.Count(b.String(), text) }

// Line is the first line that has all of these in it, "" if there is none.
func (b *Buffer) Line(parts ...string) string {
	for line := range strings.Lines(b.String()) {
		found := true
		for _, part := range parts {
			found = found && strings.Contains(line, part)
		}
		if found {
			return line
		}
	}
	return ""
}
