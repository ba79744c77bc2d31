// Package logtest is a log, or another output, that a test reads while it is written.
package logtest

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/logqueue"
)

// patience is how long Await waits.
const patience = 30 * time.Second

// Buffer holds what was written. Its methods are safe for concurrent use; the zero value is empty.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write adds p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String is all that was logged so far.
func (b *Buffer) String() string {
	logqueue.Settle()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Logger writes lines of level info and above into the buffer, without the time.
func (b *Buffer) Logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: b, Level: hclog.Info, DisableTime: true})
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
