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

// errOvertaken: the place, or the mark, is not as it was.
var errOvertaken = errors.New("the place in the effect's queue was lost, or its mark was changed out of band")

// mark is what is known of an effect, as it is stored. Its state is Running, Done or Failed, or
// "" if the effect was never tried.
type mark struct {
	State   once.State `json:"state"`
	Attempt int        `json:"attempt"`
	Token   int64      `json:"token"`
	By      string     `json:"by"`
	Value   []byte     `json:"value,omitempty"`
	// Dropped is the length of a value that was too long to keep, in bytes. Versions that did not write it
	// left such a value out as if there had been none.
	Dropped int `json:"value_dropped,omitempty"`
	// For how long who tried it remembers it, in seconds.
	Retention int64 `json:"retention,omitempty"`
	// For people: why it failed, who resolved it, and when it came to be as it is.
	Error    string    `json:"error,omitempty"`
	Resolved string    `json:"resolved,omitempty"`
	At       time.Time `json:"at,omitzero"`
}

// marked is a mark as it stands in etcd.
type marked struct {
	mark
	raw      string
	modified int64 // 0: there is none
}

// result is what every caller gets of an effect that took place, whether it ran the effect or asks later.
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

// marks reads and writes marks. One that runs stays until it is known what came of it; all
// others expire, by leases that some of them share.
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

// confirmRetry is how long to wait after a mark that could not be written.
var confirmRetry = backoff.Policy{First: 50 * time.Millisecond, Last: 250 * time.Millisecond}

func (k *marks) read(ctx context.Context, name string) (marked, error) {
	brief, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), k.timeout)
	defer cancel()
	resp, err := k.client.Get(brief, k.keys.EffectMark(name))
	switch {
	case ctx.Err() != nil && err != nil:
		return marked{}, fmt.Errorf("read the mark of effect %q: %w", name, context.Cause(ctx))
	case err != nil && brief.Err() != nil: // it is not the caller's time that is over
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

// write writes the mark over the one that was read, while guard holds. An answer that was lost
// is looked for once.
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
		return nil // an answer that was lost
	case err == nil && unread != nil:
		return unread // it may be the answer of an attempt before that was lost
	case err == nil:
		err = errOvertaken
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		k.leases.lost(lease) // this process stood still for very long, or somebody revoked it
	}
	return fmt.Errorf("write the mark of effect %q: %w", name, err)
}

// confirm writes the mark, again and again until it is known to stand, or never will, or ctx
// ends.
func (k *marks) confirm(ctx context.Context, guard clientv3.Cmp, name string, m *marked) error {
	m.At = time.Now().UTC() // the same each time: by it a write is known again
	for retry := (backoff.Backoff{Policy: confirmRetry}); ; {
		err := k.write(ctx, guard, name, m)
		if err == nil || final(err) || !wait.For(ctx, retry.Next()) {
			return err
		}
	}
}

// final reports whether another attempt would not do better.
func final(err error) bool {
	return errors.Is(err, errOvertaken) || errors.Is(err, rpctypes.ErrPermissionDenied) ||
		errors.Is(err, rpctypes.ErrRequestTooLarge)
}
