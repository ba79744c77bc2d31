package main

import (
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
)

// jsonLog writes durations like the text log does. In JSON they would be bare numbers of nanoseconds.
type jsonLog struct{ hclog.Logger }

func formatDurations(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		if d, ok := arg.(time.Duration); ok {
			args[i] = d.String()
		}
	}
	return args
}

func (l jsonLog) Log(level hclog.Level, msg string, args ...any) {
	l.Logger.Log(level, msg, formatDurations(args)...)
}
func (l jsonLog) Trace(msg string, args ...any) { l.Logger.Trace(msg, formatDurations(args)...) }
func (l jsonLog) Debug(msg string, args ...any) { l.Logger.Debug(msg, formatDurations(args)...) }
func (l jsonLog) Info(msg string, args ...any)  { l.Logger.Info(msg, formatDurations(args)...) }
func (l jsonLog) Warn(msg string, args ...any)  { l.Logger.Warn(msg, formatDurations(args)...) }
func (l jsonLog) Error(msg string, args ...any) { l.Logger.Error(msg, formatDurations(args)...) }

func (l jsonLog) With(args ...any) hclog.Logger {
	return jsonLog{l.Logger.With(formatDurations(args)...)}
}
func (l jsonLog) Named(name string) hclog.Logger { return jsonLog{l.Logger.Named(name)} }
func (l jsonLog) ResetNamed(name string) hclog.Logger {
	return jsonLog{l.Logger.ResetNamed(name)}
}
