package electproc

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/goverse/goverse/cluster/elector"
)

// etcdLock is a lock of client-go that keeps its record as cluster/elector does. Like client-go's own LeaseLock it
// compares the version of the record that it has read or written last, and its requests have the time limit that
// resourcelock.NewFromKubeconfig gives to them. One elector uses it.
type etcdLock struct {
	store   elector.LeaseStore
	id      string
	timeout time.Duration
	version string
}

func newEtcdLock(client *clientv3.Client, prefix, id string, renewDeadline time.Duration) (*etcdLock, error) {
	store, err := elector.NewEtcd(elector.EtcdConfig{Client: client, Prefix: prefix, Name: "job"})
	return &etcdLock{store: store, id: id, timeout: max(renewDeadline/2, time.Second)}, err
}

// Get implements resourcelock.Interface.
func (l *etcdLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	lease, err := l.store.GetLease(ctx)
	if err != nil {
		return nil, nil, statusOf(err)
	}
	l.version = lease.Version
	return &resourcelock.LeaderElectionRecord{
		HolderIdentity:       lease.HolderIdentity,
		LeaseDurationSeconds: int(lease.LeaseDuration / time.Second),
		AcquireTime:          metav1.Time{Time: lease.AcquireTime},
		RenewTime:            metav1.Time{Time: lease.RenewTime},
		LeaderTransitions:    int(lease.LeaderTransitions),
	}, []byte(lease.Version), nil
}

// Create implements resourcelock.Interface.
func (l *etcdLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, l.store.CreateLease)
}

// Update implements resourcelock.Interface.
func (l *etcdLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, l.store.UpdateLease)
}

func (l *etcdLock) write(ctx context.Context, r resourcelock.LeaderElectionRecord,
	write func(context.Context, elector.Lease) (elector.Lease, error)) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	written, err := write(ctx, elector.Lease{HolderIdentity: r.HolderIdentity, HolderInstance: r.HolderIdentity,
		LeaseDuration: time.Duration(r.LeaseDurationSeconds) * time.Second, AcquireTime: r.AcquireTime.Time,
		RenewTime: r.RenewTime.Time, LeaderTransitions: int64(r.LeaderTransitions), Version: l.version})
	if err == nil {
		l.version = written.Version
	}
	return statusOf(err)
}

// RecordEvent implements resourcelock.Interface.
func (l *etcdLock) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *etcdLock) Identity() string { return l.id }

// Describe implements resourcelock.Interface.
func (l *etcdLock) Describe() string { return "job" }

// statusOf returns the error by which client-go recognizes err.
func statusOf(err error) error {
	lease := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	switch {
	case errors.Is(err, elector.ErrNotFound):
		return apierrors.NewNotFound(lease, "job")
	case errors.Is(err, elector.ErrExists):
		return apierrors.NewAlreadyExists(lease, "job")
	case errors.Is(err, elector.ErrConflict):
		return apierrors.NewConflict(lease, "job", err)
	}
	return err
}
