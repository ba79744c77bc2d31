package eventlog

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/state"
)

// maxCommands is the number of operators' requests that goversed, which does not know Config.Max, keeps in a log.
const maxCommands = 200

// commandShare returns the number of operators' requests that are kept in a log of at most most events.
func commandShare(most int) int { return max(most/5, 1) }

// ReportCommand logs an operator's request that this node has carried out, and queues it to be recorded. It does not
// block. It drops the request if there were too many in a short time.
func (l *Log) ReportCommand(e event.Event) {
	if !l.commands.Allow() {
		return
	}
	e.Node = l.cfg.Address
	if snap := l.cfg.Mirror.Snapshot(); snap != nil {
		e.Revision = snap.Revision
	}
	l.rememberEvent(e, true)
	l.cfg.Logger.Info("an operator changed a processor", "processor", e.Processor, "by", e.By, "reason", e.Reason,
		event.Field, string(e.Type))
	if l.writer != nil {
		l.writer.addPending(e, true, batchDelay)
	}
}

// isCommand reports whether an event is an operator's request.
func isCommand(typ event.Type) bool {
	switch typ {
	case event.ProcessorPaused, event.ProcessorResumed, event.ProcessorRewound, event.ProcessorRetried,
		event.ProcessorDropped, event.ProcessorUnfenced:
		return true
	}
	return false
}

// pruneCommands deletes the oldest requests of operators beyond their share.
func (w *writer) pruneCommands(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.RequestTimeout)
	defer cancel()
	return pruneEvents(ctx, w.cfg.Client, w.cfg.Keys, w.cfg.Keys.CommandEvents(), commandShare(w.cfg.Max),
		now.Add(-w.cfg.MaxAge))
}

// RecordCommands writes operators' requests, up to maxBatch of them, from a process that is no node, and deletes the
// oldest ones if there are many. It blocks until etcd has answered or ctx ends.
func RecordCommands(ctx context.Context, kv clientv3.KV, keys state.Keys, commands []event.Event) error {
	if err := recordEvents(ctx, kv, keys, commands[:min(len(commands), maxBatch)]); err != nil {
		return err
	}
	return pruneEvents(ctx, kv, keys, keys.CommandEvents(), maxCommands, time.Time{})
}
