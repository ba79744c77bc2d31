package processor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// EtcdConfig is what checkpoints in etcd need. Client is required.
type EtcdConfig struct {
	// Client reaches etcd. It is never closed.
	Client *clientv3.Client
	// Prefix is the cluster's, below which the checkpoints lie. Default /goverse.
	Prefix string
	// RequestTimeout bounds each request to etcd, beside the caller's context. Default 2 s.
	RequestTimeout time.Duration
}

// Etcd keeps checkpoints in etcd: one small write for each batch. What a batch did is not
// undone when it fails in the middle; the progress before that is stored. All methods are safe for
// concurrent use and block: each of their requests until etcd has answered, RequestTimeout has passed,
// or ctx ends. A change that was cut short may have been made.
type Etcd struct {
	client  *clientv3.Client
	keys    state.Keys
	timeout time.Duration
}

func (c EtcdConfig) withDefaults() EtcdConfig {
	c.Prefix = cmp.Or(c.Prefix, "/goverse")
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 2*time.Second)
	return c
}

// Validate reports what is wrong with the configuration; errors match [ErrBadConfig].
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

// NewEtcd checks the configuration. It asks etcd nothing.
func NewEtcd(cfg EtcdConfig) (*Etcd, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	keys, err := state.NewKeys(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	return &Etcd{client: cfg.Client, keys: keys, timeout: cfg.RequestTimeout}, nil
}

// etcdRetry is how long to wait before a request whose answer was lost is looked for again.
var etcdRetry = backoff.Policy{First: 50 * time.Millisecond, Last: 250 * time.Millisecond}

// stored is a checkpoint as it stands in etcd.
type stored struct {
	Position Position `json:"position"`
	Token    int64    `json:"token"`
	revision int64    // of the last change; 0: there is none
}

func (s stored) mark() Mark { return Mark{s.Position, s.Token, s.revision} }

// is reports whether what stands is what was to be written.
func (s stored) is(want stored) bool { return s.Position == want.Position && s.Token == want.Token }

func (e *Etcd) read(ctx context.Context, name string) (stored, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	key := e.keys.Checkpoint(name)
	resp, err := e.client.Get(ctx, key)
	if err != nil {
		return stored{}, fmt.Errorf("read the checkpoint of processor %q: %w", name, err)
	}
	if len(resp.Kvs) == 0 {
		return stored{}, nil
	}
	s := stored{revision: resp.Kvs[0].ModRevision}
	if err := json.Unmarshal(resp.Kvs[0].Value, &s); err != nil {
		return stored{}, fmt.Errorf("the checkpoint of processor %q cannot be read, repair or delete %s: %w", name, key, err)
	}
	return s, nil
}

// write replaces what stood at that revision, and writes and deletes what else there is with
// it. It reports whether it did; with an error that is not known.
func (e *Etcd) write(ctx context.Context, name string, revision int64, s *stored, also ...clientv3.Op) (bool, error) {
	value, err := json.Marshal(s)
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
	return resp.Succeeded, nil
}

// Claim implements [Checkpoint]. It writes in any case, so that a request that is still under
// way finds the checkpoint changed.
func (e *Etcd) Claim(ctx context.Context, name string, token int64) (Mark, error) {
	for {
		s, err := e.read(ctx, name)
		if err != nil {
			return Mark{}, err
		}
		claimed := stored{Position: s.Position, Token: token}
		if token == 0 {
			claimed.Token = s.Token + 1
		}
		if claimed.Token < s.Token {
			return Mark{}, fencedBy(name, token, s.Token)
		}
		ok, err := e.write(ctx, name, s.revision, &claimed)
		if ok || err != nil {
			return claimed.mark(), err
		}
	}
}

// Advance implements [Checkpoint]. What was done is stored also if ctx has ended meanwhile; that
// takes two request time-outs at most.
func (e *Etcd) Advance(ctx context.Context, name string, at Mark,
	work func(ctx context.Context) (Progress, error)) (Mark, error) {
	progress, failed := work(ctx)
	if progress.Position == at.Position && len(progress.Parked) == 0 {
		return at, failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*e.timeout)
	defer cancel()
	now, err := e.store(ctx, name, at, progress)
	if failed != nil && err != nil {
		return now, fmt.Errorf("%w; and what came before it is not stored: %w", failed, err)
	}
	return now, cmp.Or(failed, err)
}

// store writes the progress. An answer that was lost is looked for; if the request was not
// carried out it is sent again: both compare the same revision, so one of them counts.
func (e *Etcd) store(ctx context.Context, name string, at Mark, progress Progress) (Mark, error) {
	next := stored{Position: progress.Position, Token: at.Token}
	var also []clientv3.Op
	for _, p := range progress.Parked {
		value, err := json.Marshal(p)
		if err != nil {
			return at, err
		}
		also = append(also, clientv3.OpPut(e.keys.ParkedEvent(name, string(p.Position)), string(value)))
	}
	for retry := (backoff.Backoff{Policy: etcdRetry}); ; {
		ok, err := e.write(ctx, name, at.Version, &next, also...)
		if ok {
			return next.mark(), nil
		}
		s, readErr := e.read(ctx, name)
		switch {
		case readErr == nil && s.revision != at.Version && s.is(next):
			return s.mark(), nil // an answer that was lost
		case readErr == nil && s.Token > at.Token:
			return at, fencedBy(name, at.Token, s.Token)
		case readErr == nil && s.revision != at.Version:
			return at, movedFrom(name, at, nil)
		case err == nil:
			err = readErr
		}
		if !wait.For(ctx, retry.Next()) {
			return at, err
		}
	}
}

// Parked are the processor's events that were given up, the oldest first.
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
		if err := json.Unmarshal(kv.Value, &parked[i]); err != nil {
			return nil, fmt.Errorf("a parked event of processor %q cannot be read, repair or delete %s: %w", name, kv.Key, err)
		}
	}
	return parked, nil
}

// Forget drops what is known of a parked event that was dealt with. It is no error if there is
// none.
func (e *Etcd) Forget(ctx context.Context, name string, at Position) error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	if _, err := e.client.Delete(ctx, e.keys.ParkedEvent(name, string(at))); err != nil {
		return fmt.Errorf("forget the parked event of processor %q at %q: %w", name, at, err)
	}
	return nil
}

// Rewind has the processor go on after the position, "" for the beginning. Who was overtaken
// stays so. A processor that runs notices with its next event, or after Config.CheckInterval.
func (e *Etcd) Rewind(ctx context.Context, name string, to Position) error {
	if err := to.Validate(); err != nil {
		return fmt.Errorf("rewind processor %q: %w", name, err)
	}
	return e.change(ctx, name, func(s *stored) { s.Position = to })
}

// Unfence lets any token claim the checkpoint, where it stands: for tokens that have begun anew.
// First make sure that nobody who had one of the old tokens goes on.
func (e *Etcd) Unfence(ctx context.Context, name string) error {
	return e.change(ctx, name, func(s *stored) { s.Token = 0 })
}

// change writes the checkpoint with something else in it.
func (e *Etcd) change(ctx context.Context, name string, f func(s *stored)) error {
	for {
		s, err := e.read(ctx, name)
		if err != nil {
			return err
		}
		changed := s
		f(&changed)
		ok, err := e.write(ctx, name, s.revision, &changed)
		if ok || err != nil {
			return err
		}
	}
}
