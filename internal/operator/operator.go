package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/mirror"
	"github.com/goverse/goverse/internal/state"
)

// connectTimeout bounds the first question to etcd in what may then take longer.
const connectTimeout = 5 * time.Second

// ErrNobody: no node is registered, which is most often a wrong prefix.
var ErrNobody = errors.New("no node is registered")

func nobody(prefix string) error { return fmt.Errorf("%w under %s: check --prefix", ErrNobody, prefix) }

// Operator is a connection to the etcd of one cluster. Its methods are safe for
// concurrent use.
type Operator struct {
	client *clientv3.Client
	cfg    cluster.Config
	keys   state.Keys
}

// Open checks the configuration and makes the client; with a user it also asks etcd,
// within timeout. Errors about the configuration match those of cluster.Config;
// others match cluster.ErrEtcdUnreachable, cluster.ErrEtcdDenied or cluster.ErrNotEtcd.
func Open(cfg cluster.Config, timeout time.Duration) (*Operator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	keys, err := state.NewKeys(cfg.EtcdPrefix)
	if err != nil {
		return nil, err
	}
	o := &Operator{cfg: cfg, keys: keys}
	if o.client, err = o.open(timeout); err != nil {
		return nil, err
	}
	return o, nil
}

// Close ends the connection.
func (o *Operator) Close() error {
	if err := o.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the connection to etcd: %w", err)
	}
	return nil
}

// Read reads the cluster once, until ctx ends, or soon if what is there can never be etcd. Errors
// match cluster.ErrEtcdUnreachable, cluster.ErrEtcdDenied or cluster.ErrNotEtcd where that is the
// reason.
func (o *Operator) Read(ctx context.Context) (Details, error) {
	snap, err := o.read(ctx)
	if err != nil {
		return Details{}, err
	}
	return newDetails(snap), nil
}

func (o *Operator) read(ctx context.Context) (*state.Snapshot, error) {
	var snap *state.Snapshot
	err := o.inquire(ctx, func(ctx context.Context) (err error) {
		snap, err = mirror.Read(ctx, o.client, o.keys)
		return err
	})
	if err != nil {
		return nil, o.explain(ctx, err)
	}
	return snap, nil
}

// explain turns etcd's answer, or silence, into an error with a remedy.
func (o *Operator) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, cluster.ErrEtcdUnreachable), errors.Is(err, cluster.ErrNotEtcd): // it is explained
	case errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err,
		rpctypes.ErrInvalidAuthToken):
		return fmt.Errorf("%w %q: give --etcd-user and --etcd-password of a user with READ on the range %s to %s (%w)",
			cluster.ErrEtcdDenied, o.cfg.Username, o.keys.RangeStart(), o.keys.RangeEnd(), err)
	case unanswered(err), hasCode(err, codes.Unimplemented):
		err, _ = o.away(ctx, err)
	}
	return err
}

// hasCode reports whether err is an answer with one of these codes, from etcd or from
// what else there is.
func hasCode(err error, wanted ...codes.Code) bool {
	var answer interface{ GRPCStatus() *status.Status }
	if errors.As(err, &answer) {
		return slices.Contains(wanted, answer.GRPCStatus().Code())
	}
	var etcd rpctypes.EtcdError
	return errors.As(err, &etcd) && slices.Contains(wanted, etcd.Code())
}
