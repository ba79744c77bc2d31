// Package slogger sends Goverse's log to a *slog.Logger:
//
//	cfg.Logger = slogger.New(slog.Default())
//
// The fields of a log line become attributes. The name of the part of the node that writes the line, such as
// "election" or "shards", is the attribute "logger". The handler decides which levels are written. Lines have no source
// position, because Goverse writes them from a queue.
//
// # What is not promised
//
// The names of attributes and the texts of lines are for people and may change.
package slogger

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/logs/logtext"
)

// LevelTrace is the level of Goverse's finest lines, below slog.LevelDebug.
const LevelTrace = slog.LevelDebug - 4

// New returns a logger for Goverse's configurations that writes to l. A nil l means slog.Default(). The logger
// is safe for concurrent use if l's handler is.
func New(l *slog.Logger) hclog.Logger {
	if l == nil {
		l = slog.Default()
	}
	return &logger{handler: l.Handler()}
}

type logger struct {
	handler slog.Handler // includes the implied attributes
	name    string
	implied []any
}

func levelOf(level hclog.Level) slog.Level {
	switch level {
	case hclog.Trace:
		return LevelTrace
	case hclog.Debug:
		return slog.LevelDebug
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Error:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

// writeLine writes one line.
func (l *logger) writeLine(level hclog.Level, msg string, args []any) {
	at, ctx := levelOf(level), context.Background()
	if level == hclog.Off || !l.handler.Enabled(ctx, at) {
		return
	}
	r := slog.NewRecord(time.Now(), at, msg, 0)
	if l.name != "" {
		r.AddAttrs(slog.String("logger", l.name))
	}
	r.Add(plainValues(args)...)
	_ = l.handler.Handle(ctx, r) // slog ignores this error too
}

// plainValues returns the arguments with hclog's own kinds of values converted to text.
func plainValues(args []any) []any {
	out := slices.Clone(args)
	for i := 1; i < len(out); i += 2 {
		switch v := out[i].(type) {
		case hclog.Format:
			if len(v) > 0 {
				out[i] = fmt.Sprintf(fmt.Sprint(v[0]), v[1:]...)
			}
		case hclog.Quote:
			out[i] = string(v)
		case hclog.Hex:
			out[i] = fmt.Sprintf("0x%x", int(v))
		case hclog.Octal:
			out[i] = fmt.Sprintf("0%o", int(v))
		case hclog.Binary:
			out[i] = fmt.Sprintf("0b%b", int(v))
		}
	}
	return out
}

func (l *logger) Log(level hclog.Level, msg string, args ...any) { l.writeLine(level, msg, args) }
func (l *logger) Trace(msg string, args ...any)                  { l.writeLine(hclog.Trace, msg, args) }
func (l *logger) Debug(msg string, args ...any)                  { l.writeLine(hclog.Debug, msg, args) }
func (l *logger) Info(msg string, args ...any)                   { l.writeLine(hclog.Info, msg, args) }
func (l *logger) Warn(msg string, args ...any)                   { l.writeLine(hclog.Warn, msg, args) }
func (l *logger) Error(msg string, args ...any)                  { l.writeLine(hclog.Error, msg, args) }

func (l *logger) enabled(level slog.Level) bool {
	return l.handler.Enabled(context.Background(), level)
}

func (l *logger) IsTrace() bool { return l.enabled(LevelTrace) }
func (l *logger) IsDebug() bool { return l.enabled(slog.LevelDebug) }
func (l *logger) IsInfo() bool  { return l.enabled(slog.LevelInfo) }
func (l *logger) IsWarn() bool  { return l.enabled(slog.LevelWarn) }
func (l *logger) IsError() bool { return l.enabled(slog.LevelError) }

func (l *logger) ImpliedArgs() []any { return slices.Clone(l.implied) }

func (l *logger) With(args ...any) hclog.Logger {
	var r slog.Record
	r.Add(plainValues(args)...)
	var attrs []slog.Attr
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	return &logger{handler: l.handler.WithAttrs(attrs), name: l.name, implied: append(slices.Clone(l.implied), args...)}
}

func (l *logger) Name() string { return l.name }

func (l *logger) Named(name string) hclog.Logger {
	if l.name != "" {
		name = l.name + "." + name
	}
	return l.ResetNamed(name)
}

func (l *logger) ResetNamed(name string) hclog.Logger {
	other := *l
	other.name = name
	return &other
}

// SetLevel does nothing: the handler decides the level.
func (l *logger) SetLevel(hclog.Level) {}

func (l *logger) GetLevel() hclog.Level {
	for _, level := range []hclog.Level{hclog.Trace, hclog.Debug, hclog.Info, hclog.Warn, hclog.Error} {
		if l.enabled(levelOf(level)) {
			return level
		}
	}
	return hclog.Off
}

func (l *logger) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return logtext.StandardLogger(l, opts)
}
func (l *logger) StandardWriter(opts *hclog.StandardLoggerOptions) io.Writer {
	return logtext.LineWriter(l, opts)
}
