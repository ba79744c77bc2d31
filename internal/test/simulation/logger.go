package simulation

import (
	"fmt"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/event"
)

// logger writes a process's log into the transcript, and notifies the checks of the events in it.
type logger struct {
	hclog.Logger
	p    *process
	name string
}

// Named implements hclog.Logger.
func (l logger) Named(name string) hclog.Logger { return logger{l.Logger, l.p, name} }

// Log implements hclog.Logger.
func (l logger) Log(_ hclog.Level, msg string, args ...any) { l.notifyChecks(msg, args) }

// Debug implements hclog.Logger.
func (l logger) Debug(msg string, args ...any) { l.notifyChecks(msg, args) }

// Info implements hclog.Logger.
func (l logger) Info(msg string, args ...any) { l.notifyChecks(msg, args) }

// Warn implements hclog.Logger.
func (l logger) Warn(msg string, args ...any) { l.notifyChecks(msg, args) }

// Error implements hclog.Logger.
func (l logger) Error(msg string, args ...any) { l.notifyChecks(msg, args) }

func (l logger) notifyChecks(msg string, args []any) {
	if l.p.dead.Load() {
		return // a dead process logs nothing
	}
	fields := logFields(args)
	if what := fields.text(event.Field); what != "" {
		l.p.w.checks.checkEvent(l.p, event.Type(what), fields)
	}
	if l.p.w.Log.On() {
		l.p.logf("%s: %s%s", l.name, msg, fields)
	}
}

// logFields holds the fields of a log line: names and values in turn.
type logFields []any

func (f logFields) value(name string) any {
	for i := 0; i+1 < len(f); i += 2 {
		if f[i] == name {
			return f[i+1]
		}
	}
	return nil
}

func (f logFields) text(name string) string {
	s, _ := f.value(name).(string)
	return s
}

func (f logFields) number(name string) int64 {
	n, _ := f.value(name).(int64)
	return n
}

// String returns the fields as a transcript shows them.
func (f logFields) String() string {
	var b strings.Builder
	for i := 0; i+1 < len(f); i += 2 {
		if f[i] != event.Field {
			fmt.Fprintf(&b, ", %s %v", f[i], f[i+1])
		}
	}
	return b.String()
}
