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
	if _, ours := l.(*queueLogger); ours {
		return l
	}
	if l == nil {
		l = hclog.NewNullLogger()
	}
	return &queueLogger{Logger: l, queue: &lineQueue{root: l}}
}

// StateOf returns the state of the queue behind l, a logger that New returned. For other loggers it returns the
// zero value.
func StateOf(l hclog.Logger) QueueState {
	if l, ours := l.(*queueLogger); ours {
		return l.queue.state()
	}
	return QueueState{}
}

// Flush waits until the lines of l, a logger that New returned, are written. It returns early when ctx ends,
// but not within the first 20 ms, and after a second at most. The time for which the line being written has
// already been stalled counts towards that second.
func Flush(ctx context.Context, l hclog.Logger) {
	if l, ours := l.(*queueLogger); ours {
		l.queue.flush(ctx)
	}
}

// queueLogger passes all calls to the user's hclog.Logger but those that write lines, which go into the queue.
type queueLogger struct {
	hclog.Logger
	queue *lineQueue
}

func (l *queueLogger) enabled(level hclog.Level) bool {
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
func (l *queueLogger) Log(level hclog.Level, text string, args ...any) {
	if !l.enabled(level) {
		return
	}
	args, size := captureArgs(args)
	l.queue.addLine(logLine{to: l.Logger, level: level, text: text, args: args, at: time.Now(), size: size + len(text)})
}

// Trace implements hclog.Logger.
func (l *queueLogger) Trace(text string, args ...any) { l.Log(hclog.Trace, text, args...) }

// Debug implements hclog.Logger.
func (l *queueLogger) Debug(text string, args ...any) { l.Log(hclog.Debug, text, args...) }

// Info implements hclog.Logger.
func (l *queueLogger) Info(text string, args ...any) { l.Log(hclog.Info, text, args...) }

// Warn implements hclog.Logger.
func (l *queueLogger) Warn(text string, args ...any) { l.Log(hclog.Warn, text, args...) }

// Error implements hclog.Logger.
func (l *queueLogger) Error(text string, args ...any) { l.Log(hclog.Error, text, args...) }

// With implements hclog.Logger.
func (l *queueLogger) With(args ...any) hclog.Logger {
	args, _ = captureArgs(args)
	return &queueLogger{Logger: l.Logger.With(args...), queue: l.queue}
}

// Named implements hclog.Logger.
func (l *queueLogger) Named(name string) hclog.Logger {
	return &queueLogger{Logger: l.Logger.Named(name), queue: l.queue}
}

// ResetNamed implements hclog.Logger.
func (l *queueLogger) ResetNamed(name string) hclog.Logger {
	return &queueLogger{Logger: l.Logger.ResetNamed(name), queue: l.queue}
}

// StandardLogger implements hclog.Logger.
func (l *queueLogger) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return logtext.StandardLogger(l, opts)
}

// StandardWriter implements hclog.Logger.
func (l *queueLogger) StandardWriter(opts *hclog.StandardLoggerOptions) io.Writer {
	return logtext.LineWriter(l, opts)
}
