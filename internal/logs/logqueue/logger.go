package logqueue

import (
	"context"
	"io"
	"log"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/logs/logtext"
)

// New makes a logger that hands its lines to l, and returns at once. Of nil it makes one that writes nothing, and
// one of its own it returns as it is.
func New(l hclog.Logger) hclog.Logger {
	if _, ours := l.(*logger); ours {
		return l
	}
	if l == nil {
		l = hclog.NewNullLogger()
	}
	return &logger{Logger: l, queue: &queue{root: l}}
}

// Look returns how the writing of l stands, which New has made.
func Look(l hclog.Logger) Standing {
	if l, ours := l.(*logger); ours {
		return l.queue.standing()
	}
	return Standing{}
}

// Flush waits until the lines of l, which New has made, are written; not beyond ctx, a second, or what hangs already.
func Flush(ctx context.Context, l hclog.Logger) {
	if l, ours := l.(*logger); ours {
		l.queue.flush(ctx)
	}
}

// logger is the hclog.Logger of others but for its lines, which go into the queue.
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

// Log is of hclog.Logger.
func (l *logger) Log(level hclog.Level, text string, args ...any) {
	if !l.enabled(level) {
		return
	}
	args, size := capture(args)
	l.queue.add(line{to: l.Logger, level: level, text: text, args: args, at: time.Now(), size: size + len(text)})
}

// Trace is of hclog.Logger.
func (l *logger) Trace(text string, args ...any) { l.Log(hclog.Trace, text, args...) }

// Debug is of hclog.Logger.
func (l *logger) Debug(text string, args ...any) { l.Log(hclog.Debug, text, args...) }

// Info is of hclog.Logger.
func (l *logger) Info(text string, args ...any) { l.Log(hclog.Info, text, args...) }

// Warn is of hclog.Logger.
func (l *logger) Warn(text string, args ...any) { l.Log(hclog.Warn, text, args...) }

// Error is of hclog.Logger.
func (l *logger) Error(text string, args ...any) { l.Log(hclog.Error, text, args...) }

// With is of hclog.Logger.
func (l *logger) With(args ...any) hclog.Logger {
	args, _ = capture(args)
	return &logger{Logger: l.Logger.With(args...), queue: l.queue}
}

// Named is of hclog.Logger.
func (l *logger) Named(name string) hclog.Logger {
	return &logger{Logger: l.Logger.Named(name), queue: l.queue}
}

// ResetNamed is of hclog.Logger.
func (l *logger) ResetNamed(name string) hclog.Logger {
	return &logger{Logger: l.Logger.ResetNamed(name), queue: l.queue}
}

// StandardLogger is of hclog.Logger.
func (l *logger) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return logtext.Logger(l, opts)
}

// StandardWriter is of hclog.Logger.
func (l *logger) StandardWriter(opts *hclog.StandardLoggerOptions) io.Writer {
	return logtext.Writer(l, opts)
}
