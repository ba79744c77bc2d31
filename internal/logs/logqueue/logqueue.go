// Package logqueue provides a logger that never blocks its callers. The destination of a log is outside the
// program's control: a pipe with no reader, a full disk, a collector that hangs. A node that waited for it
// would hold its locks meanwhile and stand still.
//
// Lines go into a queue that is bounded in bytes. One goroutine passes them to the user's logger, in order. It
// runs only while lines are queued, so nothing has to be closed. Lines beyond the bound are dropped and
// counted; the next line that is written is preceded by their number. A goroutine outlives its node only while
// the user's logger does not return.
//
// Not promised: lines that still wait when the process ends are lost, unless [Flush] had time to write them.
package logqueue

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// maxBytes bounds the queue to several thousand lines.
	maxBytes = 1 << 20
	// flushTimeout bounds the time for which a stopping node waits for its last lines.
	flushTimeout = time.Second
	// minFlushTime is the time that a stop gives the last lines even if its context has ended.
	minFlushTime = 20 * time.Millisecond
	// delayedAfter is the delay from which on a line names it, because its timestamp is that of the writing.
	delayedAfter = time.Second
)

// QueueState describes the state of a queue.
type QueueState struct {
	// Waiting is the number of lines that wait to be written.
	Waiting int
	// Lost counts the lines that were dropped because the queue was full.
	Lost uint64
	// StalledFor is the time that the line being written has taken so far; 0 if none is being written.
	StalledFor time.Duration
}

// lineQueue holds the lines that wait to be written.
type lineQueue struct {
	root hclog.Logger // logs the number of lost lines

	mu             sync.Mutex
	lines          []logLine
	bytes          int           // of all lines, the one being written included
	unreportedLost int           // lines lost since the last one that was queued
	lost           uint64        // lines, ever
	since          time.Time     // when the writing of the current line began; zero: none is being written
	drained        chan struct{} // closed when all lines are written; nil: no line waits
}

// logLine is one line of the log with the arguments that its caller passed.
type logLine struct {
	to    hclog.Logger
	level hclog.Level
	text  string
	args  []any
	at    time.Time
	size  int
	lost  int // number of lines lost before this one
}

// addLine queues a line, or drops and counts it if the queue is full.
func (q *lineQueue) addLine(l logLine) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+l.size > maxBytes {
		q.lost++
		q.unreportedLost++
		return
	}
	l.lost, q.unreportedLost = q.unreportedLost, 0
	q.lines, q.bytes = append(q.lines, l), q.bytes+l.size
	if q.drained == nil {
		q.drained = make(chan struct{})
		go q.writeLines()
	}
}

// writeLines writes lines until none waits.
func (q *lineQueue) writeLines() {
	ended := false
	defer func() {
		if !ended { // the user's logger ended this goroutine; only the current line is lost
			go q.writeLines()
		}
	}()
	written := 0
	for {
		l, more := q.nextLine(written)
		if !more {
			ended = true
			return
		}
		written = l.size
		l.write(q.root)
	}
}

// nextLine returns the next line to write, and false if there is none. written is the size of the line before, 0 at
// first.
func (q *lineQueue) nextLine(written int) (logLine, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= written
	switch {
	case len(q.lines) > 0:
		l := q.lines[0]
		q.lines[0] = logLine{}
		q.lines, q.since = q.lines[1:], time.Now()
		return l, true
	case q.unreportedLost > 0:
		l := logLine{lost: q.unreportedLost, level: hclog.Off}
		q.unreportedLost, q.since = 0, time.Now()
		return l, true
	}
	q.lines, q.since, q.bytes = nil, time.Time{}, 0
	close(q.drained)
	q.drained = nil
	return logLine{}, false
}

// write passes the line to its logger, after the number of lines lost before it.
func (l logLine) write(root hclog.Logger) {
	if l.lost > 0 {
		root.Warn("log lines were lost: the log's output did not accept them", "lines", l.lost)
	}
	if l.level == hclog.Off {
		return
	}
	if late := time.Since(l.at); late >= delayedAfter {
		l.args = append(l.args, "delayed", late.Round(time.Millisecond).String())
	}
	switch l.level {
	case hclog.Trace:
		l.to.Trace(l.text, l.args...)
	case hclog.Debug:
		l.to.Debug(l.text, l.args...)
	case hclog.Info:
		l.to.Info(l.text, l.args...)
	case hclog.Warn:
		l.to.Warn(l.text, l.args...)
	case hclog.Error:
		l.to.Error(l.text, l.args...)
	default:
		l.to.Log(l.level, l.text, l.args...)
	}
}

func (q *lineQueue) state() QueueState {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := QueueState{Waiting: len(q.lines), Lost: q.lost}
	if !q.since.IsZero() {
		s.StalledFor = time.Since(q.since)
	}
	return s
}

// flush waits until all lines are written, within the bounds of [Flush].
func (q *lineQueue) flush(ctx context.Context) {
	q.mu.Lock()
	drained, since := q.drained, q.since
	q.mu.Unlock()
	if drained == nil {
		return
	}
	patience := flushTimeout
	if !since.IsZero() { // the time that the current line has taken counts
		patience -= time.Since(since)
	}
	least, most := time.NewTimer(minFlushTime), time.NewTimer(patience)
	defer least.Stop()
	defer most.Stop()
	select {
	case <-drained:
		return
	case <-least.C:
	}
	select {
	case <-drained:
	case <-most.C:
	case <-ctx.Done():
	}
}
