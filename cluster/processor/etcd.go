package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
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
	reports sync.Map         // revisions of the reports that this process wrote, by the processors' names
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

// storedCheckpoint is a checkpoint as stored in etcd, with the requests beside it.
type storedCheckpoint struct {
	Position Position    `json:"position"`
	Token    int64       `json:"token"`
	Replay   Position    `json:"replay,omitempty"`
	Claims   int64       `json:"claims,omitempty"`
	revision int64       // etcd revision of the last change; 0: there is no checkpoint
	rest     format.Rest // fields that this release does not know; they are stored again
	requests storedRequests
}

// storedRequests holds what operators request of a processor.
type storedRequests struct {
	pause PauseRequest
	rest  format.Rest // of the pause
	retry Position
}

func (s storedCheckpoint) mark() Mark {
	return Mark{Position: s.Position, Token: s.Token, Version: s.revision, Claim: s.Claims, Replay: s.Replay,
		Paused: s.requests.pause.Paused, Request: s.requests.pause.Number, Retry: s.requests.retry}
}

// equals reports whether the stored checkpoint equals the one that was to be written.
func (s storedCheckpoint) equals(want storedCheckpoint) bool {
	return s.Position == want.Position && s.Token == want.Token && s.Replay == want.Replay && s.Claims == want.Claims
}

// requestReads returns the operations for decodeRequests, which decodes their answers.
func (e *Etcd) requestReads(name string) []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(e.keys.ProcessorPause(name)),
		clientv3.OpGet(e.keys.Retries(name), clientv3.WithPrefix(), clientv3.WithLimit(1))}
}

func (e *Etcd) decodeRequests(name string, answers []*etcdserverpb.ResponseOp) (r storedRequests, err error) {
	for _, kv := range answers[0].GetResponseRange().Kvs {
		if r.rest, err = format.Decode(string(kv.Key), kv.Value, &r.pause); err != nil {
			return r, unreadableError(name, "request to pause", string(kv.Key), err)
		}
		r.pause.Number = kv.ModRevision
	}
	for _, kv := range answers[1].GetResponseRange().Kvs {
		var retry storedRetry
		if err := format.DecodeKnown(string(kv.Key), kv.Value, &retry); err != nil {
			return r, unreadableError(name, "request for a retry", string(kv.Key), err)
		}
		r.retry = retry.Position
	}
	return r, nil
}

// unreadableError returns the error for a record of a processor that cannot be decoded.
func unreadableError(name, what, key string, err error) error {
	if errors.Is(err, ErrFormat) {
		return fmt.Errorf("the %s of processor %q cannot be used: %w", what, name, err)
	}
	return fmt.Errorf("the %s of processor %q cannot be read, repair or delete %s: %w", what, name, key, err)
}

func (e *Etcd) readStored(ctx context.Context, name string) (storedCheckpoint, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	resp, err := e.client.Txn(ctx).Then(append(e.requestReads(name), clientv3.OpGet(e.keys.Checkpoint(name)))...).Commit()
	if err != nil {
		return storedCheckpoint{}, fmt.Errorf("read the checkpoint of processor %q: %w", name, err)
	}
	return e.decodeStored(name, resp.Responses)
}

// decodeStored decodes the answers to requestReads and to a read of the checkpoint.
func (e *Etcd) decodeStored(name string, answers []*etcdserverpb.ResponseOp) (s storedCheckpoint, err error) {
	if s.requests, err = e.decodeRequests(name, answers); err != nil {
		return storedCheckpoint{}, err
	}
	for _, kv := range answers[2].GetResponseRange().Kvs {
		s.revision = kv.ModRevision
		if s.rest, err = format.Decode(string(kv.Key), kv.Value, &s); err != nil {
			return storedCheckpoint{}, unreadableError(name, "checkpoint", string(kv.Key), err)
		}
		e.rests.Keep(name, s.revision, s.rest)
	}
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
	then := slices.Concat(also, []clientv3.Op{clientv3.OpPut(key, string(value))}, e.requestReads(name))
	resp, err := e.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(then...).Commit()
	if err != nil {
		return false, fmt.Errorf("write the checkpoint of processor %q: %w", name, err)
	}
	if !resp.Succeeded {
		return false, nil
	}
	s.revision = resp.Header.Revision
	e.rests.Keep(name, s.revision, s.rest)
	s.requests, err = e.decodeRequests(name, resp.Responses[len(also)+1:])
	return true, err
}

// Claim implements [Checkpoint]. It always writes, so that a request in flight finds a changed checkpoint.
func (e *Etcd) Claim(ctx context.Context, name string, token int64) (Mark, error) {
	for {
		s, err := e.readStored(ctx, name)
		if err != nil {
			return Mark{}, err
		}
		claimed := s
		claimed.Token = token
		claimed.Claims++
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
	if progress.isEmpty(at) {
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
	next := storedCheckpoint{Position: progress.Position, Token: at.Token, Replay: progress.Replay, Claims: at.Claim,
		rest: e.rests.Rest(name, at.Version)}
	also, err := e.parkedOps(name, progress)
	if err != nil {
		return at, err
	}
	for retry := (backoff.Backoff{Policy: etcdRetry}); ; {
		ok, err := e.writeStored(ctx, name, at.Version, &next, also...)
		if ok {
			return next.mark(), err
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
