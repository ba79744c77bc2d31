package effects

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/wait"
)

// errConflict reports that the entry or the mark has changed.
var errConflict = errors.New("the effect's queue entry was lost, or its mark was changed out of band")

// mark is the stored state of an effect. State is Running, Done or Failed, or "" if the effect was never
// attempted.
type mark struct {
	State   once.State `json:"state"`
	Attempt int        `json:"attempt"`
	Token   int64      `json:"token"`
	By      string     `json:"by"`
	Value   []byte     `json:"value,omitempty"`
	// Dropped is the length in bytes of a value that was too long to keep. Versions that did not write it
	// dropped such a value without a trace.
	Dropped int `json:"value_dropped,omitempty"`
	// Retention is the retention of the node that made the attempt, in seconds.
	Retention int64 `json:"retention,omitempty"`
	// For operators: the error of the attempt, the node that resolved it, and the time of the last change.
	Error    string    `json:"error,omitempty"`
	Resolved string    `json:"resolved,omitempty"`
	At       time.Time `json:"at,omitzero"`
}

// storedMark is a mark as read from etcd.
type storedMark struct {
	mark
	rest        format.Rest // fields that this release does not know; they are stored again
	raw         string
	modRevision int64 // ModRevision; 0 if there is no mark
}

// result returns the result of an effect that took place, the same for the call that ran it and for later ones.
func (m storedMark) result(name string) (once.Result, error) {
	r := once.Result{Value: m.Value, Attempt: m.Attempt, Token: m.Token}
	if m.Dropped > 0 {
		return r, fmt.Errorf("effect %q took place and returned %d bytes: %w", name, m.Dropped, once.ErrValueTooLong)
	}
	return r, nil
}

func (m storedMark) unknownError(name string, err error) error {
	return &once.UnknownError{Name: name, Attempt: m.Attempt, Token: m.Token, By: m.By, Err: err}
}

// markStore reads and writes marks. The mark of a running attempt stays until its outcome is known. All others
// expire with leases that they share.
type markStore struct {
	client  *clientv3.Client
	keys    state.Keys
	timeout time.Duration
	leases  *leasePool
}

func newMarkStore(cfg Config) *markStore {
	client, timeout := cfg.Queues.Client(), cfg.Queues.RequestTimeout()
	return &markStore{client: client, keys: cfg.Keys, timeout: timeout,
		leases: newLeasePool(client, cfg.Retention, timeout)}
}

// confirmRetry is the pause after a failed write of a mark.
var confirmRetry = backoff.Policy{First: 50 * time.Millisecond, Last: 250 * time.Millisecond}

func (k *markStore) readMark(ctx context.Context, name string) (storedMark, error) {
	brief, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), k.timeout)
	defer cancel()
	resp, err := k.client.Get(brief, k.keys.EffectMark(name))
	switch {
	case ctx.Err() != nil && err != nil:
		return storedMark{}, fmt.Errorf("read the mark of effect %q: %w", name, context.Cause(ctx))
	case err != nil && brief.Err() != nil: // k.timeout has passed, not the caller's context
		return storedMark{}, fmt.Errorf("read the mark of effect %q: etcd did not answer within %v: %w", name, k.timeout, err)
	case err != nil:
		return storedMark{}, fmt.Errorf("read the mark of effect %q: %w", name, err)
	}
	if len(resp.Kvs) == 0 {
		return storedMark{}, nil
	}
	m := storedMark{modRevision: resp.Kvs[0].ModRevision, raw: string(resp.Kvs[0].Value)}
	if m.mark, m.rest, err = decodeMark(resp.Kvs[0].Value); err != nil {
		return storedMark{}, fmt.Errorf("the mark of effect %q cannot be read, %s: %w", name, k.keys.EffectMark(name), err)
	}
	return m, nil
}

func decodeMark(raw []byte) (m mark, rest format.Rest, err error) {
	rest, err = format.Decode("the mark", raw, &m)
	return m, rest, err
}

// writeMark replaces the mark that was read, while guard holds. If the answer is lost, it reads the mark once to
// find the outcome.
func (k *markStore) writeMark(ctx context.Context, guard clientv3.Cmp, name string, m *storedMark) error {
	lease := clientv3.NoLease
	if m.State != once.Running {
		var err error
		if lease, err = k.leases.leaseForKey(ctx); err != nil {
			return fmt.Errorf("write the mark of effect %q: %w", name, err)
		}
	}
	value, err := format.Encode(m.mark, m.rest)
	if err != nil {
		return fmt.Errorf("effect %q: %w", name, err)
	}
	key := k.keys.EffectMark(name)
	attempt, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), k.timeout)
	defer cancel()
	resp, err := k.client.Txn(attempt).If(guard, clientv3.Compare(clientv3.ModRevision(key), "=", m.modRevision)).
		Then(clientv3.OpPut(key, string(value), clientv3.WithLease(lease))).Commit()
	if err == nil && resp.Succeeded {
		m.modRevision = resp.Header.Revision
		return nil
	}
	now, unread := k.readMark(ctx, name)
	switch {
	case unread == nil && now.modRevision > m.modRevision && now.raw == string(value):
		m.modRevision = now.modRevision
		return nil // the answer was lost
	case err == nil && unread != nil:
		return unread // an earlier attempt may have been committed and its answer lost
	case err == nil:
		err = errConflict
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		k.leases.dropLease(lease) // the process was paused for very long, or the lease was revoked out of band
	}
	return fmt.Errorf("write the mark of effect %q: %w", name, err)
}

// writeConfirmed retries write until the mark is known to stand, or never will, or ctx ends.
func (k *markStore) writeConfirmed(ctx context.Context, guard clientv3.Cmp, name string, m *storedMark) error {
	m.At = time.Now().UTC() // the same for each attempt, which identifies the write
	for retry := (backoff.Backoff{Policy: confirmRetry}); ; {
		err := k.writeMark(ctx, guard, name, m)
		if err == nil || isFinal(err) || !wait.For(ctx, retry.Next()) {
			return err
		}
	}
}

// isFinal reports whether another attempt would be useless.
func isFinal(err error) bool {
	return errors.Is(err, errConflict) || errors.Is(err, rpctypes.ErrPermissionDenied) ||
		errors.Is(err, rpctypes.ErrRequestTooLarge)
}
