package doctor

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/reach"
)

const (
	// reads and leases are how many of them measure how fast an endpoint is.
	reads  = 6
	leases = 2
)

// endpoints looks at each endpoint, all at once. Members are etcd's, nil if none says.
func (x *examiner) endpoints(ctx context.Context) (out []diagnosis.Endpoint, members []diagnosis.Member) {
	all := addresses(x.Etcd)
	out = make([]diagnosis.Endpoint, len(all))
	said := make([][]diagnosis.Member, len(all))
	var wg sync.WaitGroup
	for i, address := range all {
		wg.Go(func() { out[i], said[i] = x.endpoint(ctx, address) })
	}
	wg.Wait()
	for _, m := range said {
		if len(m) > len(members) {
			members = m
		}
	}
	return out, members
}

func (x *examiner) endpoint(ctx context.Context, address string) (e diagnosis.Endpoint, members []diagnosis.Member) {
	e.Address = address
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { e.Health, e.Clock = x.health(ctx, address) })
	one := x.Etcd
	one.Address, one.DialTimeout = address, stepTimeout
	client, err := one.Connect(ctx)
	if err == nil {
		defer func() { _ = client.Close() }() // what was written is revoked
		asking, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		err = one.Ask(asking, "", func(ctx context.Context) error {
			said, err := client.Status(ctx, address)
			if err == nil {
				e.Status = &diagnosis.Status{Version: said.Version, MemberID: said.Header.GetMemberId(), Leader: said.Leader,
					Learner: said.IsLearner, Size: said.DbSize, InUse: said.DbSizeInUse, Quota: said.DbSizeQuota, Errors: said.Errors}
			}
			return err
		})
	}
	if e.Failure = failure(err); e.Failure != nil {
		return e, nil
	}
	members = membersOf(ctx, client)
	x.measure(ctx, client, &e)
	return e, members
}

// failure is what err means for an endpoint.
func failure(err error) *diagnosis.Failure {
	if err == nil {
		return nil
	}
	f := &diagnosis.Failure{Kind: diagnosis.Unreachable}
	switch {
	case errors.Is(err, reach.ErrNotEtcd):
		f.Kind = diagnosis.NotEtcd
	case errors.Is(err, reach.ErrDenied):
		f.Kind = diagnosis.Denied
	}
	var ok bool
	if f.Says, f.Remedy, ok = reach.Parts(err); !ok {
		f.Says = why(err)
	}
	if f.Remedy == "" {
		f.Remedy = "check --etcd and that etcd runs there"
	}
	return f
}

// membersOf asks for etcd's members, which takes no quorum from 3.5 on.
func membersOf(ctx context.Context, client *clientv3.Client) (out []diagnosis.Member) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	said, err := client.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return nil
	}
	for _, m := range said.Members {
		out = append(out, diagnosis.Member{ID: m.ID, Name: m.Name, Learner: m.IsLearner, Clients: m.ClientURLs})
	}
	return out
}

// measure reads, and creates and revokes leases, and says how long each took. One that fails ends it.
func (x *examiner) measure(ctx context.Context, client *clientv3.Client, e *diagnosis.Endpoint) {
	for range reads {
		took, err := x.timed(ctx, func(ctx context.Context) error {
			_, err := client.Get(clientv3.WithRequireLeader(ctx), x.Keys.RangeStart(), clientv3.WithKeysOnly())
			if reach.Refuses(err) {
				return nil // it is refused only when it was read
			}
			return err
		})
		if err != nil {
			e.ReadError = why(err)
			return
		}
		e.Reads = append(e.Reads, took)
	}
	for range leases {
		var lease clientv3.LeaseID
		took, err := x.timed(ctx, func(ctx context.Context) error {
			granted, err := client.Grant(ctx, int64(x.TTL/time.Second))
			if err == nil {
				lease, e.Granted = granted.ID, time.Duration(granted.TTL)*time.Second
			}
			return err
		})
		if err != nil {
			e.WriteError = why(err)
			return
		}
		e.Writes = append(e.Writes, took)
		began := time.Now()
		if revoke(ctx, client, lease) == nil {
			e.Writes = append(e.Writes, time.Since(began))
		}
	}
}

// timed is how long do took, which has the time-out of a step.
func (x *examiner) timed(ctx context.Context, do func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	began := time.Now()
	err := do(ctx)
	return time.Since(began), err
}

// revoke ends a lease, also when ctx has ended.
func revoke(ctx context.Context, client *clientv3.Client, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	_, err := client.Revoke(ctx, lease)
	return err
}
