package etcd

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/objects/state"
)

// Config configures a [Store]. Client is required.
type Config struct {
	// Client is the etcd client. The store never closes it.
	Client *clientv3.Client
	// Prefix is the prefix of the store's keys. Keep it apart from the prefix of any cluster, because clusters
	// watch all keys below their own. Default /goverse-objects.
	Prefix string
	// Retention is the time for which replies, and claims of objects without a state, are kept: at least 1 s,
	// in whole seconds. Default 24 h.
	Retention time.Duration
	// RequestTimeout limits each call, in addition to the caller's context. Default 5 s.
	RequestTimeout time.Duration
	// MaxBytes limits the size of a state and a reply together. etcd refuses requests larger than its
	// --max-request-bytes, 1.5 MiB by default. Default 1 MiB.
	MaxBytes int
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, "/goverse-objects")
	c.Retention = cmp.Or(c.Retention, state.DefaultRetention)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 5*time.Second)
	c.MaxBytes = cmp.Or(c.MaxBytes, 1<<20)
	return c
}

// Validate returns an error that matches state.ErrBadConfig if the configuration is invalid.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case d.Client == nil:
		return fmt.Errorf("%w: etcd.Config.Client is nil; make one with clientv3.New", state.ErrBadConfig)
	case !strings.HasPrefix(d.Prefix, "/") || strings.HasSuffix(d.Prefix, "/"):
		return fmt.Errorf("%w: etcd.Config.Prefix is %q; begin it with a slash, and do not end it with one",
			state.ErrBadConfig, d.Prefix)
	case d.Retention < time.Second:
		return fmt.Errorf("%w: etcd.Config.Retention is %v; make it at least 1s, or leave it 0 for the default",
			state.ErrBadConfig, d.Retention)
	case d.RequestTimeout < 0:
		return fmt.Errorf("%w: etcd.Config.RequestTimeout is negative (%v); leave it 0 for the default",
			state.ErrBadConfig, d.RequestTimeout)
	case d.MaxBytes < 0:
		return fmt.Errorf("%w: etcd.Config.MaxBytes is negative (%d); leave it 0 for the default",
			state.ErrBadConfig, d.MaxBytes)
	}
	return nil
}

// Store is a state.Store in etcd. All methods are safe for concurrent use.
type Store struct {
	cfg    Config
	leases *replyLeases
}

var _ state.Store = (*Store)(nil)

// New returns a store, or an error if the configuration is invalid. It sends no request to etcd.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Store{cfg: cfg, leases: newReplyLeases(cfg.Client, cfg.Retention)}, nil
}

func (s *Store) recordKey(ref state.Ref) string {
	return s.cfg.Prefix + "/records/" + url.PathEscape(ref.Service) + "/" + url.PathEscape(ref.Key)
}

func (s *Store) replyKey(ref state.Ref, requestID string) string {
	return s.cfg.Prefix + "/replies/" + url.PathEscape(ref.Service) + "/" + url.PathEscape(ref.Key) + "/" +
		url.PathEscape(requestID)
}

// requestContext returns a context that limits a request. It makes a member of etcd that is cut off from the others
// refuse the request.
func (s *Store) requestContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(clientv3.WithRequireLeader(ctx), s.cfg.RequestTimeout)
}

// headerSize is the length of a record's prefix: the epoch, which sorts values by epoch, and one byte that is 1 if
// there is a state.
const headerSize = 9

func encodeRecord(epoch int64, found bool, value []byte) string {
	b := make([]byte, headerSize, headerSize+len(value))
	binary.BigEndian.PutUint64(b, uint64(epoch))
	if found {
		b[headerSize-1] = 1
	}
	return string(append(b, value...))
}

func decodeRecord(key string, value []byte) (epoch int64, found bool, rest []byte, err error) {
	if len(value) < headerSize || value[headerSize-1] > 1 {
		return 0, false, nil, fmt.Errorf("%w: %s holds no record that this release of Goverse reads: if a newer "+
			"release wrote it, use that; if another program did, delete it", state.ErrUnreadable, key)
	}
	return int64(binary.BigEndian.Uint64(value)), value[headerSize-1] == 1, value[headerSize:], nil
}

// epochAtMost compares the stored epoch with epoch. Values of larger epochs sort after this one.
func epochAtMost(key string, epoch int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.Value(key), "<", encodeRecord(epoch+1, false, nil)[:headerSize-1])
}

// Load implements [state.Store]. It reads the record and writes it back with the epoch, until no other write
// comes between.
func (s *Store) Load(ctx context.Context, ref state.Ref, epoch int64) (state.Record, error) {
	if err := checkOwner(ref, epoch); err != nil {
		return state.Record{}, err
	}
	ctx, cancel := s.requestContext(ctx)
	defer cancel()
	key := s.recordKey(ref)
	for {
		resp, err := s.cfg.Client.Get(ctx, key)
		if err != nil {
			return state.Record{}, fmt.Errorf("%w: %w", state.ErrUnavailable, err)
		}
		var r state.Record
		var stored, modified int64
		if len(resp.Kvs) > 0 {
			modified = resp.Kvs[0].ModRevision
			if stored, r.Found, r.Value, err = decodeRecord(key, resp.Kvs[0].Value); err != nil {
				return state.Record{}, err
			}
		}
		if stored > epoch {
			return state.Record{}, fmt.Errorf("epoch %d, stored %d: %w", epoch, stored, state.ErrFenced)
		}
		txn, err := s.commitTxn(ctx, !r.Found, func(lease clientv3.LeaseID) clientv3.Txn {
			put := clientv3.OpPut(key, encodeRecord(epoch, r.Found, r.Value))
			if !r.Found {
				put = clientv3.OpPut(key, encodeRecord(epoch, false, nil), clientv3.WithLease(lease))
			}
			return s.cfg.Client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", modified)).Then(put)
		})
		if err != nil {
			return state.Record{}, fmt.Errorf("%w: %w", state.ErrUnavailable, err)
		}
		if txn.Succeeded {
			r.Version = txn.Header.Revision
			return r, nil
		}
	}
}

// checkOwner validates ref and epoch. Values sort by their epochs only from 0 on.
func checkOwner(ref state.Ref, epoch int64) error {
	if epoch < 0 {
		return fmt.Errorf("%w: the epoch %d is negative", state.ErrBadRef, epoch)
	}
	return ref.Validate()
}

// Reply implements [state.Store].
func (s *Store) Reply(ctx context.Context, ref state.Ref, requestID string) (reply []byte, ok bool, err error) {
	if err := errors.Join(ref.Validate(), state.CheckRequestID(requestID)); err != nil {
		return nil, false, err
	}
	ctx, cancel := s.requestContext(ctx)
	defer cancel()
	resp, err := s.cfg.Client.Get(ctx, s.replyKey(ref, requestID))
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", state.ErrUnavailable, err)
	}
	if len(resp.Kvs) == 0 {
		return nil, false, nil
	}
	return resp.Kvs[0].Value, true, nil
}

// Save implements [state.Store], in one transaction.
func (s *Store) Save(ctx context.Context, ref state.Ref, w state.Write) (int64, error) {
	if err := errors.Join(checkOwner(ref, w.Epoch), w.Validate()); err != nil {
		return 0, err
	}
	size := len(w.Value) + len(w.Reply)
	if size > s.cfg.MaxBytes {
		return 0, fmt.Errorf("%w: they have %d bytes of at most %d", state.ErrTooLarge, size, s.cfg.MaxBytes)
	}
	ctx, cancel := s.requestContext(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%w: %w", state.ErrUnavailable, context.Cause(ctx))
	}
	key := s.recordKey(ref)
	txn, err := s.commitTxn(ctx, w.Delete || w.RequestID != "", func(lease clientv3.LeaseID) clientv3.Txn {
		put := clientv3.OpPut(key, encodeRecord(w.Epoch, true, w.Value))
		if w.Delete {
			put = clientv3.OpPut(key, encodeRecord(w.Epoch, false, nil), clientv3.WithLease(lease))
		}
		ops := []clientv3.Op{put}
		if w.RequestID != "" {
			ops = append(ops, clientv3.OpPut(s.replyKey(ref, w.RequestID), string(w.Reply), clientv3.WithLease(lease)))
		}
		return s.cfg.Client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", w.Version),
			clientv3.Compare(clientv3.ModRevision(key), ">", 0), epochAtMost(key, w.Epoch)).
			Then(ops...).Else(clientv3.OpGet(key))
	})
	switch {
	case err != nil:
		return 0, saveError(err, size)
	case !txn.Succeeded:
		return 0, refusalError(key, w, txn)
	}
	return txn.Header.Revision, nil
}

// refusalError returns the error of a save that replaced nothing.
func refusalError(key string, w state.Write, txn *clientv3.TxnResponse) error {
	kvs := txn.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return fmt.Errorf("%w: it is not claimed, or no longer", state.ErrConflict)
	}
	epoch, _, _, err := decodeRecord(key, kvs[0].Value)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", state.ErrConflict, err)
	case epoch > w.Epoch:
		return fmt.Errorf("epoch %d, stored %d: %w", w.Epoch, epoch, state.ErrFenced)
	}
	return fmt.Errorf("version %d, stored %d: %w", w.Version, kvs[0].ModRevision, state.ErrConflict)
}
