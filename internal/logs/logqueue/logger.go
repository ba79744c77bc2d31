package logqueue

import (
	"context"
	"io"
	"log"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/logs/logtext"
)

// New returns a logger that queues its lines for l and never blocks. If l is nil, the logger discards its
// lines. If New made l, it returns l itself.
func New(l hclog.Logger) hclog.Logger {
	if _, ours := l.(*logger); ours {
		return l
	}
	if l == nil {
		l = hclog.NewNullLogger()
	}
	return &logger{Logger: l, queue: &queue{root: l}}
}

// Look returns the state of the queue behind l, a logger that New returned. For other loggers it returns the
// zero value.
func Look(l hclog.Logger) Standing {
	if l, ours := l.(*logger); ours {
		return l.queue.standing()
	}
	return Standing{}
}

// Flush waits until the lines of l, a logger that New returned, are written. It returns early when ctx ends,
// but not within the first 20 ms, and after a second at most. The time for which the line being written has
// already been stalled counts towards that second.
func Flush(ctx context.Context, l hclog.Logger) {
	if l, ours := l.(*logger); ours {
		l.queue.flush(ctx)
	}
}

// logger passes all calls to the user's hclog.Logger but those that write lines, which go into the queue.
type logger struct {
	hclog.Logger
	queue *queue
}

func (l *logger) enabled(level hclog.Level) bool {
	switch level {
	case hclog.Off:
		return false
	case hclog.Trace:
		return l.IsTrace()
	case hclog.Debug:
		return l.IsDebug()
	case hclog.Warn:
		return l.IsWarn()
	case hclog.Error:
		return l.IsError()
	}
	return l.IsInfo()
}

// Log implements hclog.Logger.
func (l *logger) Log(level hclog.Level, text string, args ...any) {
	if !l.enabled(level) {
		return
	}
	args, size := capture(args)
	l.queue.add(line{to: l.Logger, level: level, text: text, args: args, at: time.Now(), size: size + len(text)})
}

// Trace implements hclog.Logger.
func (l *logger) Trace(text string, args ...any) { l.Log(hclog.Trace, text, args...) }

// Debug implements hclog.Logger.
func (l *logger) Debug(text string, args ...any) { l.Log(hclog.Debug, text, args...) }

// Info implements hclog.Logger.
func (l *logger) Info(text string, args ...any) { l.Log(hclog.Info, text, args...) }

// Warn implements hclog.Logger.
func (l *logger) Warn(text string, args ...any) { l.Log(hclog.Warn, text, args...) }

// Error implements hclog.Logger.
func (l *logger) Error(text string, args ...any) { l.Log(hclog.Error, text, args...) }

// With implements hclog.Logger.
func (l *logger) With(args ...any) hclog.Logger {
	args, _ = capture(args)
	return &logger{Logger: l.Logger.With(args...), queue: l.queue}
}

// Named implements hclog.Logger.
func (l *logger) Named(name string) hclog.Logger {
	return &logger{Logger: l.Logger.Named(name), queue: l.queue}
}

// ResetNamed implements hclog.Logger.
func (l *logger) ResetNamed(name string) hclog.Logger {
	return &logger{Logger: l.Logger.ResetNamed(name), queue: l.queue}
}

// StandardLogger implements hclog.Logger.
func (l *logger) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return logtext.Logger(l, opts)
}

// StandardWriter implements hclog.Logger.
func (l *logger) StandardWriter(opts *hclog.StandardLoggerOptions) io.Writer {
	return logtext.Writer(l, opts)
}
