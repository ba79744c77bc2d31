// Package logtest captures a log, or other output, that a test reads while it is written.
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
	// patience limits the wait of Await.
	patience = 30 * time.Second
	// flushTries is the number of times that String waits, up to a second each, for lines that are queued but not
	// written. It waits several times because a busy machine may make no progress in one of them.
	flushTries = 3
)

// Buffer holds written output. Its methods are safe for concurrent use; the zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	logs []hclog.Logger // loggers that write into it
}

// Write appends p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns everything logged so far, including the queued lines of its loggers.
func (b *Buffer) String() string {
	b.mu.Lock()
	logs := slices.Clone(b.logs)
	b.mu.Unlock()
	for _, log := range logs {
		for range flushTries {
			logqueue.Flush(context.Background(), log)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Logger returns a logger that writes lines of level info and above into the buffer, without the time.
func (b *Buffer) Logger() hclog.Logger {
	return b.LoggerWith(hclog.LoggerOptions{Level: hclog.Info, DisableTime: true})
}

// LoggerWith returns a logger with these options that writes into the buffer. It has the queue that Goverse would
// put in front of it, so that String includes the queued lines.
func (b *Buffer) LoggerWith(options hclog.LoggerOptions) hclog.Logger {
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

// Count returns the number of times that text was written.
func (b *Buffer) Count(text string) int { return strings.Count(b.String(), text) }

// Line returns the first line that contains all parts, or "" if there is none.
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
