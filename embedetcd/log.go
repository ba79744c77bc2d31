package embedetcd

import (
	"fmt"
	"os"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/goverse/goverse/internal/etcd/zaplog"
)

// etcdLogger adapts the user's logger for one server. The channel serving is closed when the server begins to
// serve, closing when it begins to close.
func etcdLogger(l hclog.Logger, serving, closing <-chan struct{}) *zap.Logger {
	return zaplog.New(l.Named("etcd"),
		zap.WithFatalHook(exitOnFatal{silent: !l.IsError()}),
		zap.WrapCore(func(c zapcore.Core) zapcore.Core {
			return quietCore{Core: c, serving: serving, closing: closing}
		}))
}

// quietCore lowers harmless messages of etcd to info. Before it serves, etcd warns about its own defaults, and
// about peers that start at the same moment; if the start then fails, the caller gets an error. While it
// closes, each of its listeners reports as an error that it was closed. A member that has just joined reports
// that it cannot store its storage version yet.
type quietCore struct {
	zapcore.Core
	serving, closing <-chan struct{}
}

// With keeps the wrapper around the new core.
func (h quietCore) With(fields []zapcore.Field) zapcore.Core {
	h.Core = h.Core.With(fields)
	return h
}

// Check lowers the level of harmless messages.
func (h quietCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Level == zapcore.WarnLevel && (!isClosed(h.serving) || isClosed(h.closing)) ||
		e.Level == zapcore.ErrorLevel && (isClosed(h.closing) || e.Message == "failed to update storage version") {
		e.Level = zapcore.InfoLevel
	}
	return h.Core.Check(e, ce)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// exitOnFatal ends the process on Fatal, as zap's contract demands. Without a logger it first prints the reason
// to standard error.
type exitOnFatal struct{ silent bool }

// OnWrite ends the process.
func (w exitOnFatal) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	if w.silent {
		enc := zapcore.NewMapObjectEncoder()
		for _, f := range fields {
			f.AddTo(enc)
		}
		fmt.Fprintf(os.Stderr, "embedded etcd cannot go on: %s %v\n", ce.Message, enc.Fields["error"])
	}
	os.Exit(1)
}
