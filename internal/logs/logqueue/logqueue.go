// Package logqueue makes a logger that its callers never wait for. What a log is written to belongs to somebody
// else: a pipe that nobody reads, a full disk, a collector that hangs. A node whose duty waited for that would hold
// its locks, and stand still with them.
//
// Lines go into a queue that is bounded in bytes, and one goroutine hands them to the logger of the user, in their
// order. It runs while there are lines, so that nothing has to be closed. Beyond the bound lines are lost, counted,
// and a line says how many as soon as the log is taken again. A goroutine outlives its node only while the user's
// logger does not return.
package logqueue

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// maxBytes bounds what waits: several thousand lines.
	maxBytes = 1 << 20
	// flushPatience bounds how long the end of a node waits for its last lines.
	flushPatience = time.Second
	// leastPatience is given to the last lines by a stop whose time is over.
	leastPatience = 20 * time.Millisecond
	// delayedAfter a line says how long it has waited, for its time is that of the writing.
	delayedAfter = time.Second
)

// Standing is how the writing of a log stands.
type Standing struct {
	// Waiting is how many lines wait to be written.
	Waiting int
	// Lost is how many lines were never written, because too many waited.
	Lost uint64
	// StalledFor is how long the line that is being written has taken so far; 0 when none is.
	StalledFor time.Duration
}

// queue is what waits to be written.
type queue struct {
	root hclog.Logger // what was lost is said there

	mu      sync.Mutex
	lines   []line
	bytes   int           // of the lines, the one that is being written among them
	unsaid  int           // lines lost since the last one that was taken
	lost    uint64        // lines
	since   time.Time     // the line that is being written was begun; zero: there is none
	drained chan struct{} // closed when all is written; nil: all is
}

// line is a line of the log as its caller said it.
type line struct {
	to    hclog.Logger
	level hclog.Level
	text  string
	args  []any
	at    time.Time
	size  int
	lost  int // lines before this one
}

// add takes a line, or counts it where too many wait.
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

// drain writes until nothing waits.
func (q *queue) drain() {
	ended := false
	defer func() {
		if !ended { // the logger has left this goroutine, which costs the one line
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

// next is the line after one that had this size. There are none any more where all is written.
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

// write hands the line to its logger, after what was lost before it.
func (l line) write(root hclog.Logger) {
	if l.lost > 0 {
		root.Warn("lines of this log were lost: what it is written to has not taken them", "lines", l.lost)
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

// flush waits until all is written, for as long as that may be hoped for.
func (q *queue) flush(ctx context.Context) {
	q.mu.Lock()
	drained, since := q.drained, q.since
	q.mu.Unlock()
	if drained == nil {
		return
	}
	patience := flushPatience
	if !since.IsZero() { // what it hangs at counts
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
