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
	// flushPatience bounds the time for which a stopping node waits for its last lines.
	flushPatience = time.Second
	// leastPatience is the time that a stop gives the last lines even if its context has ended.
	leastPatience = 20 * time.Millisecond
	// delayedAfter is the delay from which on a line names it, because its timestamp is that of the writing.
	delayedAfter = time.Second
)

// Standing describes the state of a queue.
type Standing struct {
	// Waiting is the number of lines that wait to be written.
	Waiting int
	// Lost counts the lines that were dropped because the queue was full.
	Lost uint64
	// StalledFor is the time that the line being written has taken so far; 0 if none is being written.
	StalledFor time.Duration
}

// queue holds the lines that wait to be written.
type queue struct {
	root hclog.Logger // logs the number of lost lines

	mu      sync.Mutex
	lines   []line
	bytes   int           // of all lines, the one being written included
	unsaid  int           // lines lost since the last one that was queued
	lost    uint64        // lines, ever
	since   time.Time     // when the writing of the current line began; zero: none is being written
	drained chan struct{} // closed when all lines are written; nil: no line waits
}

// line is one line of the log with the arguments that its caller passed.
type line struct {
	to    hclog.Logger
	level hclog.Level
	text  string
	args  []any
	at    time.Time
	size  int
	lost  int // number of lines lost before this one
}

// add queues a line, or drops and counts it if the queue is full.
func (q *queue) add(l line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+l.size > maxBytes {
		q.lost++
		q.unsaid++
		return
	}
	l.lost, q.unsaid = q.unsaid, 0
	q.lines, q.bytes = append(q.lines, l), q.bytes+l.size
	if q.drained == nil {
		q.drained = make(chan struct{})
		go q.drain()
	}
}

// drain writes lines until none waits.
func (q *queue) drain() {
	ended := false
	defer func() {
		if !ended { // the user's logger ended this goroutine; only the current line is lost
			go q.drain()
		}
	}()
	written := 0
	for {
		l, more := q.next(written)
		if !more {
			ended = true
			return
		}
		written = l.size
		l.write(q.root)
	}
}

// next returns the next line to write, and false if there is none. written is the size of the line before, 0 at
// first.
func (q *queue) next(written int) (line, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= written
	switch {
	case len(q.lines) > 0:
		l := q.lines[0]
		q.lines[0] = line{}
		q.lines, q.since = q.lines[1:], time.Now()
		return l, true
	case q.unsaid > 0:
		l := line{lost: q.unsaid, level: hclog.Off}
		q.unsaid, q.since = 0, time.Now()
		return l, true
	}
	q.lines, q.since, q.bytes = nil, time.Time{}, 0
	close(q.drained)
	q.drained = nil
	return line{}, false
}

// write passes the line to its logger, after the number of lines lost before it.
func (l line) write(root hclog.Logger) {
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

func (q *queue) standing() Standing {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Standing{Waiting: len(q.lines), Lost: q.lost}
	if !q.since.IsZero() {
		s.StalledFor = time.Since(q.since)
	}
	return s
}

// flush waits until all lines are written, within the bounds of [Flush].
func (q *queue) flush(ctx context.Context) {
	q.mu.Lock()
	drained, since := q.drained, q.since
	q.mu.Unlock()
	if drained == nil {
		return
	}
	patience := flushPatience
	if !since.IsZero() { // the time that the current line has taken counts
		patience -= time.Since(since)
	}
	least, most := time.NewTimer(leastPatience), time.NewTimer(patience)
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
