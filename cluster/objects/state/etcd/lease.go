package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects/state"
)

// A lease is used for the retention divided by leasesPerRetention, or for keysPerLease keys: etcd deletes all keys of a
// lease at once.
const (
	leasesPerRetention = 8
	keysPerLease       = 4096
)

// replyLeases provides the leases of replies and claims, one after the other.
type replyLeases struct {
	client    *clientv3.Client
	retention time.Duration

	turn chan struct{} // holds a token while a caller uses the fields below, also while etcd grants a lease

	id clientv3.LeaseID // 0: none
	// It is used until either clock has reached its end: one stands still in a suspended machine, and the other can
	// be set.
	until, wallUntil time.Time
	uses             int
}

func newReplyLeases(client *clientv3.Client, retention time.Duration) *replyLeases {
	return &replyLeases{client: client, retention: retention, turn: make(chan struct{}, 1)}
}

// currentLease returns a lease that lasts at least for the retention, and not the lease lost, which no longer exists.
// Only one caller at a time requests one from etcd. The others wait for that, until their ctx ends.
func (l *replyLeases) currentLease(ctx context.Context, lost clientv3.LeaseID) (clientv3.LeaseID, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", errNoLease, context.Cause(ctx))
	}
	begun := time.Now()
	over := begun.After(l.until) || begun.Round(0).After(l.wallUntil)
	if l.id == lost || over || l.uses+2 > keysPerLease {
		share := l.retention / leasesPerRetention
		seconds := int64((l.retention + share + time.Second - 1) / time.Second)
		granted, err := l.client.Grant(ctx, seconds)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errNoLease, err)
		}
		l.id, l.until, l.uses = granted.ID, begun.Add(share), 0
		l.wallUntil = l.until.Round(0) // without the monotonic clock
	}
	l.uses += 2 // at most one reply and one claim
	return l.id, nil
}

// errNoLease reports that no lease was granted, so the transaction was not sent.
var errNoLease = errors.New("a lease was not granted")

// commitTxn sends a transaction, with a lease if leased is set. If the lease no longer exists, which etcd reports
// before it writes anything, commitTxn tries again with a new lease, up to three times in all.
func (s *Store) commitTxn(ctx context.Context, leased bool,
	txn func(clientv3.LeaseID) clientv3.Txn) (*clientv3.TxnResponse, error) {
	if !leased {
		return txn(0).Commit()
	}
	var id clientv3.LeaseID
	for attempt := 1; ; attempt++ {
		var err error
		if id, err = s.leases.currentLease(ctx, id); err != nil {
			return nil, err
		}
		resp, err := txn(id).Commit()
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) || attempt == 3 {
			return resp, err
		}
	}
}

// refusalErrors lists the errors that etcd returns before it writes. ErrNoSpace is not among them: when its space
// runs out, etcd carries out the requests in flight and answers them with ErrNoSpace all the same.
var refusalErrors = []error{errNoLease, rpctypes.ErrNoLeader, rpctypes.ErrTooManyRequests, rpctypes.ErrPermissionDenied,
	rpctypes.ErrLeaseNotFound, rpctypes.ErrInvalidAuthToken}

// grpcMargin is the difference between the message size that etcd's gRPC server accepts and the request size that
// etcd accepts.
const grpcMargin = 512 << 10

// saveError classifies the error of a failed transaction that was to write size bytes.
func saveError(err error, size int) error {
	// gRPC reports ResourceExhausted for other resources, too, in some cases after etcd has written.
	tooLong := size > grpcMargin && status.Code(err) == codes.ResourceExhausted &&
		!errors.As(err, new(rpctypes.EtcdError))
	if tooLong || errors.Is(err, rpctypes.ErrRequestTooLarge) {
		return fmt.Errorf("%w: %w", state.ErrTooLarge, err)
	}
	for _, refusal := range refusalErrors {
		if errors.Is(err, refusal) {
			return fmt.Errorf("%w: %w", state.ErrUnavailable, err)
		}
	}
	return fmt.Errorf("%w: %w", state.ErrOutcomeUnknown, err)
}
