package eventlog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/time/rate"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// maxTypeSize limits the type of a program's event, and maxDataSize its data as JSON, both in bytes.
	maxTypeSize = 64
	maxDataSize = 1 << 10
	// recordBurst limits the events of a program that one node records at once. The node regains one each
	// recordInterval.
	recordBurst    = 60
	recordInterval = time.Second
)

var (
	// ErrBadEvent is returned for a type or data that cannot be recorded.
	ErrBadEvent = errors.New("bad event")
	// ErrEventRate is returned when the program records events faster than a node may.
	ErrEventRate = errors.New("too many events in too short a time")
	// ErrEventLogOff is returned by a node that does not record events.
	ErrEventLogOff = errors.New("this node does not record events: its EventLog.Off is set")
)

// programWriter records the events of the program, in the calls of Record.
type programWriter struct {
	cfg     Config
	limit   *ProgramLimit
	pruning atomic.Bool // one call at a time deletes events beyond the share
}

func newProgramWriter(cfg Config) *programWriter {
	return &programWriter{cfg: cfg, limit: NewProgramLimit()}
}

// programShare returns the number of programs' events that are kept in a log of at most most events. The rest is
// reserved for Goverse's own.
func programShare(most int) int { return max(most/2, 1) }

// Record writes an event of the program. It blocks until etcd has it, which it asks for again and again, or ctx ends.
// The event is recorded at most once, also after an error that leaves open whether it was.
func (l *Log) Record(ctx context.Context, typ event.Type, data any) error {
	if l.cfg.Off {
		return ErrEventLogOff
	}
	return l.program.record(ctx, typ, data)
}

func (w *programWriter) record(ctx context.Context, typ event.Type, data any) error {
	e, err := w.limit.NewEvent(typ, data, w.cfg.Address)
	if err != nil {
		return err
	}
	if snap := w.cfg.Mirror.Snapshot(); snap != nil {
		e.Revision = snap.Revision
	}
	count, err := w.writeUntilDone(ctx, e)
	if err != nil {
		return explainRecordError(err, typ, w.cfg.Keys)
	}
	w.pruneShare(ctx, count)
	return nil
}

// ProgramLimit makes the events that a program records on one node, and limits their rate. It is safe for concurrent
// use.
type ProgramLimit struct{ *rate.Limiter }

// NewProgramLimit returns the limit of one node.
func NewProgramLimit() *ProgramLimit {
	return &ProgramLimit{rate.NewLimiter(rate.Every(recordInterval), recordBurst)}
}

// NewEvent returns an event of a program on the node with that address, at the present time, with an ID of its own.
// Errors match ErrBadEvent or ErrEventRate.
func (l *ProgramLimit) NewEvent(typ event.Type, data any, address string) (event.Event, error) {
	encoded, err := encodeProgramEvent(typ, data)
	if err != nil {
		return event.Event{}, err
	}
	if !l.Allow() {
		return event.Event{}, fmt.Errorf("%w: a node records %d at once, then one each %v; record fewer, with more data in "+
			"each", ErrEventRate, recordBurst, recordInterval)
	}
	return event.Event{ID: string(typ) + "-" + strings.ToLower(rand.Text()), Type: typ, Time: time.Now().UTC(),
		Node: address, Data: encoded, RecordedBy: address}, nil
}

// CheckEvent returns an error that matches ErrBadEvent unless an event of any type, a program's or not, can be
// recorded.
func CheckEvent(typ event.Type, data json.RawMessage) error {
	switch {
	case len(typ) > maxTypeSize || !validType(typ):
		return fmt.Errorf("%w: the type %.70q: give lower-case letters and underscores, at most %d bytes", ErrBadEvent, typ,
			maxTypeSize)
	case len(data) > maxDataSize:
		return fmt.Errorf("%w: the data of %s has %d bytes as JSON: give up to %d", ErrBadEvent, typ, len(data), maxDataSize)
	case len(data) > 0 && !json.Valid(data):
		return fmt.Errorf("%w: the data of %s is not JSON", ErrBadEvent, typ)
	}
	return nil
}

// encodeProgramEvent returns data as JSON; nil for no data. It refuses a type or data that programs may not record.
func encodeProgramEvent(typ event.Type, data any) (json.RawMessage, error) {
	name, ok := strings.CutPrefix(string(typ), event.ProgramPrefix)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: the type %.70q is reserved for Goverse's own: begin it with %q", ErrBadEvent, typ,
			event.ProgramPrefix)
	case name == "" || len(typ) > maxTypeSize || !validType(typ):
		return nil, fmt.Errorf("%w: the type %.70q: give lower-case letters and underscores after %q, %d bytes in all",
			ErrBadEvent, typ, event.ProgramPrefix, maxTypeSize)
	case data == nil:
		return nil, nil
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("%w: encode the data of %s as JSON: %w", ErrBadEvent, typ, err)
	}
	if len(encoded) > maxDataSize {
		return nil, fmt.Errorf("%w: the data of %s has %d bytes as JSON: give up to %d", ErrBadEvent, typ, len(encoded),
			maxDataSize)
	}
	return encoded, nil
}

// validType reports whether a type has only the characters that every release reads.
func validType(typ event.Type) bool {
	return typ != "" && strings.Trim(string(typ), "abcdefghijklmnopqrstuvwxyz_") == ""
}

// writeUntilDone writes an event until etcd confirms it, refuses it, or ctx ends. It returns the number of programs'
// events in the log. The id makes a repeated write harmless.
func (w *programWriter) writeUntilDone(ctx context.Context, e event.Event) (count int, err error) {
	retry := backoff.Backoff{Policy: retryPolicy, Random: w.cfg.Random}
	for {
		count, err = w.writeOnce(ctx, e)
		switch {
		case err == nil || errors.Is(err, rpctypes.ErrPermissionDenied):
			return count, err
		case !wait.For(ctx, retry.Next()):
			return 0, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

func (w *programWriter) writeOnce(ctx context.Context, e event.Event) (count int, err error) {
	create, err := createEvent(w.cfg.Keys, e)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, w.cfg.RequestTimeout)
	defer cancel()
	resp, err := w.cfg.Client.Txn(ctx).Then(create, clientv3.OpGet(w.cfg.Keys.ProgramEvents(), clientv3.WithPrefix(),
		clientv3.WithCountOnly())).Commit()
	if err != nil {
		return 0, err
	}
	return int(resp.Responses[1].GetResponseRange().Count), nil
}

// pruneShare deletes the oldest events of programs when there are a tenth more than their share, so that few calls have
// to. If etcd refuses, a later call deletes them.
func (w *programWriter) pruneShare(ctx context.Context, count int) {
	share := programShare(w.cfg.Max)
	if count <= share+share/10 || !w.pruning.CompareAndSwap(false, true) {
		return
	}
	defer w.pruning.Store(false)
	ctx, cancel := context.WithTimeout(ctx, w.cfg.RequestTimeout)
	defer cancel()
	err := pruneEvents(ctx, w.cfg.Client, w.cfg.Keys, w.cfg.Keys.ProgramEvents(), share, time.Now().Add(-w.cfg.MaxAge))
	if err != nil && ctx.Err() == nil {
		w.cfg.Logger.Debug("could not delete the oldest events of programs, a later event does", "error", err)
	}
}

func explainRecordError(err error, typ event.Type, keys state.Keys) error {
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return fmt.Errorf("record the event %s: grant the node's etcd user READ and WRITE on the prefix %s: %w", typ,
			keys.Events(), err)
	}
	return fmt.Errorf("record the event %s: %w", typ, err)
}
