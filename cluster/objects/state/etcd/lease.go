package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects/state"
)

// shared is how much of the retention uses one lease, and keysPerLease how many keys: etcd deletes all of them
// at once.
const (
	shared       = 8
	keysPerLease = 4096
)

// leases are those that replies and claims end with, one after the other.
type leases struct {
	client    *clientv3.Client
	retention time.Duration

	mu    sync.Mutex
	now   clientv3.LeaseID // 0: none
	until time.Time
	uses  int
}

// current is a lease that lasts for the retention at least. One caller at a time asks etcd for it.
func (l *leases) current(ctx context.Context) (clientv3.LeaseID, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begun := time.Now()
	if l.now == 0 || begun.After(l.until) || l.uses+2 > keysPerLease {
		share := l.retention / shared
		seconds := int64((l.retention + share + time.Second - 1) / time.Second)
		granted, err := l.client.Grant(ctx, seconds)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errNoLease, err)
		}
		l.now, l.until, l.uses = granted.ID, begun.Add(share), 0
	}
	l.uses += 2 // a reply and a claim at most
	return l.now, nil
}

// drop forgets a lease that is gone.
func (l *leases) drop(id clientv3.LeaseID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == id {
		l.now = 0
	}
}

// errNoLease: the transaction was not sent.
var errNoLease = errors.New("a lease was not granted")

// commit sends a transaction, with a lease if it needs one; once more if the lease is gone, which etcd says
// before it writes anything.
func (s *Store) commit(ctx context.Context, leased bool,
	txn func(clientv3.LeaseID) clientv3.Txn) (*clientv3.TxnResponse, error) {
	if !leased {
		return txn(0).Commit()
	}
	for attempt := 1; ; attempt++ {
		id, err := s.leases.current(ctx)
		if err != nil {
			return nil, err
		}
		resp, err := txn(id).Commit()
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) || attempt == 3 {
			return resp, err
		}
		s.leases.drop(id)
	}
}

// refusals are errors that etcd answers before it writes. ErrNoSpace is none: etcd carries out what was on its way
// when its space was used up, and answers with it all the same.
var refusals = []error{errNoLease, rpctypes.ErrNoLeader, rpctypes.ErrTooManyRequests, rpctypes.ErrPermissionDenied,
	rpctypes.ErrLeaseNotFound, rpctypes.ErrInvalidAuthToken}

// grpcRoom is by how much etcd's gRPC server takes longer messages than etcd takes requests.
const grpcRoom = 512 << 10

// saveError says what became of a transaction that has failed, which was to write so many bytes.
func saveError(err error, size int) error {
	// gRPC says of other resources, too, that they are exhausted, and of some when etcd has written.
	tooLong := size > grpcRoom && status.Code(err) == codes.ResourceExhausted &&
		!errors.As(err, new(rpctypes.EtcdError))
	if tooLong || errors.Is(err, rpctypes.ErrRequestTooLarge) {
		return fmt.Errorf("%w: %w", state.ErrTooLarge, err)
	}
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return fmt.Errorf("%w: %w", state.ErrUnavailable, err)
		}
	}
	return fmt.Errorf("%w: %w", state.ErrOutcomeUnknown, err)
}
