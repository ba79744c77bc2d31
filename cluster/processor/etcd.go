package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/wait"
)

// EtcdConfig configures checkpoints in etcd. Client is required.
type EtcdConfig struct {
	// Client is the etcd client. It is never closed.
	Client *clientv3.Client
	// Prefix is the cluster's prefix, below which the checkpoints lie. Default /goverse.
	Prefix string
	// RequestTimeout limits each request to etcd, in addition to the caller's context. Default 2 s.
	RequestTimeout time.Duration
}

// Etcd keeps checkpoints in etcd, with one small write per batch. It cannot undo a batch that fails in the
// middle: the progress before the failure is stored. All methods are safe for concurrent use. They block: each
// request lasts until etcd has answered, RequestTimeout has passed, or ctx ends. A change that was cut short
// may have been made.
type Etcd struct {
	client  *clientv3.Client
	keys    state.Keys
	timeout time.Duration
	rests   format.RestCache // of the checkpoints, by name
}

// ErrFormat is matched by the error of a checkpoint or a parked event that this release does not read, because a newer
// release of Goverse wrote it. The text names both formats. The record is left as it is.
var ErrFormat = format.ErrFormat

func (c EtcdConfig) withDefaults() EtcdConfig {
	c.Prefix = cmp.Or(c.Prefix, "/goverse")
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 2*time.Second)
	return c
}

// Validate returns an error that matches [ErrBadConfig] if the configuration is invalid.
func (c EtcdConfig) Validate() error {
	_, err := state.NewKeys(c.withDefaults().Prefix)
	switch {
	case c.Client == nil:
		return fmt.Errorf("%w: EtcdConfig.Client is nil; give it an etcd client", ErrBadConfig)
	case c.RequestTimeout < 0:
		return fmt.Errorf("%w: EtcdConfig.RequestTimeout is negative (%v); leave it 0 for the default", ErrBadConfig,
			c.RequestTimeout)
	case err != nil:
		return fmt.Errorf("%w: EtcdConfig.Prefix: %w", ErrBadConfig, err)
	}
	return nil
}

// NewEtcd returns checkpoints in etcd, or an error if the configuration is invalid. It sends no request to
// etcd.
func NewEtcd(cfg EtcdConfig) (*Etcd, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	keys, _ := state.NewKeys(cfg.Prefix) // Validate found no error
	return &Etcd{client: cfg.Client, keys: keys, timeout: cfg.RequestTimeout}, nil
}

// etcdRetry is the pause before the next check of a request that got no answer.
var etcdRetry = backoff.Policy{First: 50 * time.Millisecond, Last: 250 * time.Millisecond}

// storedCheckpoint is a checkpoint as stored in etcd.
type storedCheckpoint struct {
	Position Position    `json:"position"`
	Token    int64       `json:"token"`
	revision int64       // etcd revision of the last change; 0: there is no checkpoint
	rest     format.Rest // fields that this release does not know; they are stored again
}

func (s storedCheckpoint) mark() Mark { return Mark{s.Position, s.Token, s.revision} }

// equals reports whether the stored checkpoint equals the one that was to be written.
func (s storedCheckpoint) equals(want storedCheckpoint) bool {
	return s.Position == want.Position && s.Token == want.Token
}

func (e *Etcd) readStored(ctx context.Context, name string) (storedCheckpoint, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	key := e.keys.Checkpoint(name)
	resp, err := e.client.Get(ctx, key)
	if err != nil {
		return storedCheckpoint{}, fmt.Errorf("read the checkpoint of processor %q: %w", name, err)
	}
	if len(resp.Kvs) == 0 {
		return storedCheckpoint{}, nil
	}
	s := storedCheckpoint{revision: resp.Kvs[0].ModRevision}
	if s.rest, err = format.Decode(key, resp.Kvs[0].Value, &s); errors.Is(err, ErrFormat) {
		return storedCheckpoint{}, fmt.Errorf("the checkpoint of processor %q cannot be used: %w", name, err)
	} else if err != nil {
		return storedCheckpoint{}, fmt.Errorf("the checkpoint of processor %q cannot be read, repair or delete %s: %w",
			name, key, err)
	}
	e.rests.Keep(name, s.revision, s.rest)
	return s, nil
}

// writeStored replaces the checkpoint if its revision is still the given one, and applies the operations in also in
// the same transaction. It reports whether it did; after an error that is unknown.
func (e *Etcd) writeStored(ctx context.Context, name string, revision int64, s *storedCheckpoint,
	also ...clientv3.Op) (bool, error) {
	value, err := format.Encode(s, s.rest)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	key := e.keys.Checkpoint(name)
	resp, err := e.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
		Then(append(also, clientv3.OpPut(key, string(value)))...).Commit()
	if err != nil {
		return false, fmt.Errorf("write the checkpoint of processor %q: %w", name, err)
	}
	s.revision = resp.Header.Revision
	if resp.Succeeded {
		e.rests.Keep(name, s.revision, s.rest)
	}
	return resp.Succeeded, nil
}

// Claim implements [Checkpoint]. It always writes, so that a request in flight finds a changed checkpoint.
func (e *Etcd) Claim(ctx context.Context, name string, token int64) (Mark, error) {
	for {
		s, err := e.readStored(ctx, name)
		if err != nil {
			return Mark{}, err
		}
		claimed := storedCheckpoint{Position: s.Position, Token: token, rest: s.rest}
		if token == 0 {
			claimed.Token = s.Token + 1
		}
		if claimed.Token < s.Token {
			return Mark{}, fencedError(name, token, s.Token)
		}
		ok, err := e.writeStored(ctx, name, s.revision, &claimed)
		if ok || err != nil {
			return claimed.mark(), err
		}
	}
}

// Advance implements [Checkpoint]. It stores the progress even if ctx has ended, which takes at most two
// request time-outs.
func (e *Etcd) Advance(ctx context.Context, name string, at Mark,
	work func(ctx context.Context) (Progress, error)) (Mark, error) {
	progress, failed := work(ctx)
	if progress.Position == at.Position && len(progress.Parked) == 0 {
		return at, failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*e.timeout)
	defer cancel()
	now, err := e.storeProgress(ctx, name, at, progress)
	if failed != nil && err != nil {
		return now, fmt.Errorf("%w; and what came before it is not stored: %w", failed, err)
	}
	return now, cmp.Or(failed, err)
}

// storeProgress writes the progress. If the answer is lost, it reads the checkpoint, and sends the request again if it
// was not carried out. Both requests compare the same revision, so only one takes effect.
func (e *Etcd) storeProgress(ctx context.Context, name string, at Mark, progress Progress) (Mark, error) {
	next := storedCheckpoint{Position: progress.Position, Token: at.Token, rest: e.rests.Rest(name, at.Version)}
	var also []clientv3.Op
	for _, p := range progress.Parked {
		value, err := format.Encode(p, nil)
		if err != nil {
			return at, err
		}
		also = append(also, clientv3.OpPut(e.keys.ParkedEvent(name, string(p.Position)), string(value)))
	}
	for retry := (backoff.Backoff{Policy: etcdRetry}); ; {
		ok, err := e.writeStored(ctx, name, at.Version, &next, also...)
		if ok {
			return next.mark(), nil
		}
		s, readErr := e.readStored(ctx, name)
		switch {
		case readErr == nil && s.revision != at.Version && s.equals(next):
			return s.mark(), nil // our write took effect and its answer was lost
		case readErr == nil && s.Token > at.Token:
			return at, fencedError(name, at.Token, s.Token)
		case readErr == nil && s.revision != at.Version:
			return at, movedError(name, at, nil)
		case err == nil:
			err = readErr
		}
		if !wait.For(ctx, retry.Next()) {
			return at, err
		}
	}
}

// Parked returns the processor's parked events, oldest first.
func (e *Etcd) Parked(ctx context.Context, name string) ([]Parked, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	resp, err := e.client.Get(ctx, e.keys.Parked(name), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend))
	if err != nil {
		return nil, fmt.Errorf("read the parked events of processor %q: %w", name, err)
	}
	parked := make([]Parked, len(resp.Kvs))
	for i, kv := range resp.Kvs {
		if err := format.DecodeKnown(string(kv.Key), kv.Value, &parked[i]); errors.Is(err, ErrFormat) {
			return nil, fmt.Errorf("a parked event of processor %q cannot be read: %w", name, err)
		} else if err != nil {
			return nil, fmt.Errorf("a parked event of processor %q cannot be read, repair or delete %s: %w", name, kv.Key, err)
		}
	}
	return parked, nil
}

// Forget removes the record of a parked event. It returns no error if there is none.
func (e *Etcd) Forget(ctx context.Context, name string, at Position) error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	if _, err := e.client.Delete(ctx, e.keys.ParkedEvent(name, string(at))); err != nil {
		return fmt.Errorf("forget the parked event of processor %q at %q: %w", name, at, err)
	}
	return nil
}

// Rewind makes the processor continue after the given position; "" is the beginning. Smaller tokens stay
// fenced. A running processor notices with its next event, or after Config.CheckInterval.
func (e *Etcd) Rewind(ctx context.Context, name string, to Position) error {
	if err := to.Validate(); err != nil {
		return fmt.Errorf("rewind processor %q: %w", name, err)
	}
	return e.changeStored(ctx, name, func(s *storedCheckpoint) { s.Position = to })
}

// Unfence lets any token claim the checkpoint at its current position. It is for tokens that have started
// again. First make sure that no process with an old token is still running.
func (e *Etcd) Unfence(ctx context.Context, name string) error {
	return e.changeStored(ctx, name, func(s *storedCheckpoint) { s.Token = 0 })
}

// changeStored applies f to the stored checkpoint.
func (e *Etcd) changeStored(ctx context.Context, name string, f func(s *storedCheckpoint)) error {
	for {
		s, err := e.readStored(ctx, name)
		if err != nil {
			return err
		}
		changed := s
		f(&changed)
		ok, err := e.writeStored(ctx, name, s.revision, &changed)
		if ok || err != nil {
			return err
		}
	}
}
