package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// errOvertaken reports that the entry or the mark has changed.
var errOvertaken = errors.New("the place in the effect's queue was lost, or its mark was changed out of band")

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

// marked is a mark as read from etcd.
type marked struct {
	mark
	raw      string
	modified int64 // ModRevision; 0 if there is no mark
}

// result returns the result of an effect that took place, the same for the call that ran it and for later ones.
func (m marked) result(name string) (once.Result, error) {
	r := once.Result{Value: m.Value, Attempt: m.Attempt, Token: m.Token}
	if m.Dropped > 0 {
		return r, fmt.Errorf("effect %q took place and returned %d bytes: %w", name, m.Dropped, once.ErrValueTooLong)
	}
	return r, nil
}

func (m marked) unknown(name string, err error) error {
	return &once.UnknownError{Name: name, Attempt: m.Attempt, Token: m.Token, By: m.By, Err: err}
}

// marks reads and writes marks. The mark of a running attempt stays until its outcome is known. All others
// expire with leases that they share.
type marks struct {
	client  *clientv3.Client
	keys    state.Keys
	timeout time.Duration
	leases  *leases
}

func newMarks(cfg Config) *marks {
	client, timeout := cfg.Queues.Client(), cfg.Queues.RequestTimeout()
	return &marks{client: client, keys: cfg.Keys, timeout: timeout, leases: newLeases(client, cfg.Retention, timeout)}
}

// confirmRetry is the pause after a failed write of a mark.
var confirmRetry = backoff.Policy{First: 50 * time.Millisecond, Last: 250 * time.Millisecond}

func (k *marks) read(ctx context.Context, name string) (marked, error) {
	brief, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), k.timeout)
	defer cancel()
	resp, err := k.client.Get(brief, k.keys.EffectMark(name))
	switch {
	case ctx.Err() != nil && err != nil:
		return marked{}, fmt.Errorf("read the mark of effect %q: %w", name, context.Cause(ctx))
	case err != nil && brief.Err() != nil: // k.timeout has passed, not the caller's context
		return marked{}, fmt.Errorf("read the mark of effect %q: etcd did not answer within %v: %w", name, k.timeout, err)
	case err != nil:
		return marked{}, fmt.Errorf("read the mark of effect %q: %w", name, err)
	}
	if len(resp.Kvs) == 0 {
		return marked{}, nil
	}
	m := marked{modified: resp.Kvs[0].ModRevision, raw: string(resp.Kvs[0].Value)}
	if m.mark, err = decode(resp.Kvs[0].Value); err != nil {
		return marked{}, fmt.Errorf("the mark of effect %q cannot be read, %s: %w", name, k.keys.EffectMark(name), err)
	}
	return m, nil
}

func decode(raw []byte) (m mark, err error) {
	err = json.Unmarshal(raw, &m)
	return m, err
}

// write replaces the mark that was read, while guard holds. If the answer is lost, it reads the mark once to
// find the outcome.
func (k *marks) write(ctx context.Context, guard clientv3.Cmp, name string, m *marked) error {
	lease := clientv3.NoLease
	if m.State != once.Running {
		var err error
		if lease, err = k.leases.take(ctx); err != nil {
			return fmt.Errorf("write the mark of effect %q: %w", name, err)
		}
	}
	value, err := json.Marshal(m.mark)
	if err != nil {
		return fmt.Errorf("effect %q: %w", name, err)
	}
	key := k.keys.EffectMark(name)
	attempt, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), k.timeout)
	defer cancel()
	resp, err := k.client.Txn(attempt).If(guard, clientv3.Compare(clientv3.ModRevision(key), "=", m.modified)).
		Then(clientv3.OpPut(key, string(value), clientv3.WithLease(lease))).Commit()
	if err == nil && resp.Succeeded {
		m.modified = resp.Header.Revision
		return nil
	}
	now, unread := k.read(ctx, name)
	switch {
	case unread == nil && now.modified > m.modified && now.raw == string(value):
		m.modified = now.modified
		return nil // the answer was lost
	case err == nil && unread != nil:
		return unread // an earlier attempt may have been committed and its answer lost
	case err == nil:
		err = errOvertaken
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		k.leases.lost(lease) // the process was paused for very long, or the lease was revoked out of band
	}
	return fmt.Errorf("write the mark of effect %q: %w", name, err)
}

// confirm retries write until the mark is known to stand, or never will, or ctx ends.
func (k *marks) confirm(ctx context.Context, guard clientv3.Cmp, name string, m *marked) error {
	m.At = time.Now().UTC() // the same for each attempt, which identifies the write
	for retry := (backoff.Backoff{Policy: confirmRetry}); ; {
		err := k.write(ctx, guard, name, m)
		if err == nil || final(err) || !wait.For(ctx, retry.Next()) {
			return err
		}
	}
}

// final reports whether another attempt would be useless.
func final(err error) bool {
	return errors.Is(err, errOvertaken) || errors.Is(err, rpctypes.ErrPermissionDenied) ||
		errors.Is(err, rpctypes.ErrRequestTooLarge)
}
