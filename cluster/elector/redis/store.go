package redis

import (
	"context"
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/internal/state/format"
)

// Store is a lease store in one key. It is safe for concurrent use.
type Store struct {
	client  goredis.UniversalClient
	key     string
	subject string // names the key in errors
	replace *goredis.Script
}

// replace writes ARGV[2] if the key has ARGV[1], or does not exist and ARGV[1] is empty, and returns 1 if it did. A
// client that lost the answer may send a request again; it is answered as before, because no other request writes that
// text. GETEX counts as a write, so a replica refuses the script at once.
const replace = `
local found = redis.call('GETEX', KEYS[1], 'PERSIST')
if found == ARGV[2] then return 1 end
if found ~= (ARGV[1] ~= '' and ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`

// New returns a store, or an error if the configuration is invalid. It sends no request to Redis.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Store{client: cfg.Client, key: cfg.Key, subject: fmt.Sprintf("the key %q of Redis", cfg.Key),
		replace: goredis.NewScript(replace)}, nil
}

// GetLease implements [elector.LeaseStore].
func (s *Store) GetLease(ctx context.Context) (elector.Lease, error) {
	text, err := s.client.GetEx(ctx, s.key, 0).Result() // 0: PERSIST
	switch {
	case errors.Is(err, goredis.Nil):
		return elector.Lease{}, elector.ErrNotFound
	case err != nil:
		return elector.Lease{}, s.explain("read", err)
	}
	l, _, err := decodeRecord(s.subject, text)
	return l, err
}

// CreateLease implements [elector.LeaseStore].
func (s *Store) CreateLease(ctx context.Context, lease elector.Lease) (elector.Lease, error) {
	return s.writeLease(ctx, lease, "", nil, elector.ErrExists)
}

// UpdateLease implements [elector.LeaseStore].
func (s *Store) UpdateLease(ctx context.Context, lease elector.Lease) (elector.Lease, error) {
	_, rest, err := decodeRecord(s.subject, lease.Version)
	if err != nil {
		return elector.Lease{}, elector.ErrConflict // no method has returned that version
	}
	return s.writeLease(ctx, lease, lease.Version, rest, elector.ErrConflict)
}

// writeLease replaces the text found, "" for none, or returns other if the key has another one.
func (s *Store) writeLease(ctx context.Context, l elector.Lease, found string, rest format.Rest,
	other error) (elector.Lease, error) {
	l, err := encodeRecord(l, rest)
	if err != nil {
		return elector.Lease{}, fmt.Errorf("write %s: %w", s.subject, err)
	}
	written, err := s.replace.Run(ctx, s.client, []string{s.key}, found, l.Version).Bool()
	switch {
	case err != nil:
		return elector.Lease{}, s.explain("write", err)
	case !written:
		return elector.Lease{}, other
	}
	return l, nil
}

// explain returns an error of Redis with its remedy.
func (s *Store) explain(do string, err error) error {
	remedy := ""
	switch {
	case goredis.HasErrorPrefix(err, "WRONGTYPE"):
		remedy = "; it holds no lease record: delete it if nothing else uses it, otherwise use another Key"
	case goredis.IsReadOnlyError(err):
		remedy = "; connect to the master, by its name, by Sentinel, or by a cluster client"
	}
	return fmt.Errorf("%s %s: %w%s", do, s.subject, err, remedy)
}
