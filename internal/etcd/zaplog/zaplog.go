// Package zaplog connects libraries that log through zap, such as etcd's client and server, to a user's
// hclog.Logger, so that a program has one log and one level.
//
// etcd logs its own routine at level info: every compaction, every listener, every raft step. For a program
// that only uses etcd this is detail, so every level below warn moves down by one:
//
//	zap    debug   info    warn   error, dpanic, panic, fatal
//	hclog  trace   debug   warn   error
//
// Not promised: a call of Fatal may not return. Zap and its options, not this package, decide what follows the
// writing of an entry: Panic panics, Fatal exits, and DPanic panics in development mode.
package zaplog

import (
	"github.com/hashicorp/go-hclog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New returns a zap logger that writes every entry to l, or discards all of them if l is nil. It asks l for its
// level at each entry, so a later l.SetLevel takes effect at once. opts are zap's own, for example
// zap.AddCaller. The logger is safe for concurrent use.
func New(l hclog.Logger, opts ...zap.Option) *zap.Logger {
	if l == nil {
		l = hclog.NewNullLogger()
	}
	return zap.New(&core{log: l}, opts...)
}

// core is the zapcore.Core that writes to an hclog.Logger.
type core struct {
	log hclog.Logger
	// fields were bound with With; prefix is the namespace that was open then.
	fields []any
	prefix string
}

// Enabled reports whether the underlying logger writes entries of this level.
func (c *core) Enabled(l zapcore.Level) bool {
	// Unlike GetLevel, the Is methods work for hclog's null logger too.
	switch hclogLevel(l) {
	case hclog.Trace:
		return c.log.IsTrace()
	case hclog.Debug:
		return c.log.IsDebug()
	case hclog.Warn:
		return c.log.IsWarn()
	default:
		return c.log.IsError()
	}
}

// With returns a core that adds fields to every entry.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	bound, prefix := appendPairs(c.fields[:len(c.fields):len(c.fields)], c.prefix, fields)
	return &core{log: c.log, fields: bound, prefix: prefix}
}

// Check adds this core to the entry if the level is enabled.
func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write passes one entry to hclog, with its fields as key/value pairs in their order.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	pairs, _ := appendPairs(c.fields[:len(c.fields):len(c.fields)], c.prefix, fields)
	if e.LoggerName != "" {
		pairs = append(pairs, "logger", e.LoggerName)
	}
	if e.Caller.Defined {
		pairs = append(pairs, "caller", e.Caller.TrimmedPath())
	}
	if e.Stack != "" {
		pairs = append(pairs, "stacktrace", e.Stack)
	}
	c.log.Log(hclogLevel(e.Level), e.Message, pairs...)
	return nil
}

// Sync does nothing: hclog writes out each entry before it returns.
func (c *core) Sync() error { return nil }

// hclogLevel maps zap's levels to hclog's, as the package comment shows.
func hclogLevel(l zapcore.Level) hclog.Level {
	switch {
	case l < zapcore.InfoLevel:
		return hclog.Trace
	case l < zapcore.WarnLevel:
		return hclog.Debug
	case l < zapcore.ErrorLevel:
		return hclog.Warn
	default:
		return hclog.Error
	}
}
