package doctor

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/etcd/connect"
)

const (
	// measuredReads and measuredLeases are the numbers of requests with which the speed of an endpoint is measured.
	measuredReads  = 6
	measuredLeases = 2
)

// examineEndpoints examines all endpoints concurrently. Members are the members of etcd, nil if no endpoint named
// them.
func (x *examiner) examineEndpoints(ctx context.Context) (out []diagnosis.Endpoint, members []diagnosis.Member) {
	all := endpointAddresses(x.Etcd)
	out = make([]diagnosis.Endpoint, len(all))
	said := make([][]diagnosis.Member, len(all))
	var wg sync.WaitGroup
	for i, address := range all {
		wg.Go(func() { out[i], said[i] = x.examineEndpoint(ctx, address) })
	}
	wg.Wait()
	for _, m := range said {
		if len(m) > len(members) {
			members = m
		}
	}
	return out, members
}

func (x *examiner) examineEndpoint(ctx context.Context, address string) (e diagnosis.Endpoint,
	members []diagnosis.Member) {
	e.Address = address
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { e.Health, e.Clock = x.readHealth(ctx, address) })
	one := x.Etcd
	one.Address, one.DialTimeout = address, stepTimeout
	client, err := one.Connect(ctx)
	if err == nil {
		defer func() { _ = client.Close() }() // everything written is revoked
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
	if e.Failure = classifyFailure(err); e.Failure != nil {
		return e, nil
	}
	members = listEtcdMembers(ctx, client)
	x.measureEndpoint(ctx, client, &e)
	return e, members
}

// classifyFailure classifies an error of an endpoint.
func classifyFailure(err error) *diagnosis.Failure {
	if err == nil {
		return nil
	}
	f := &diagnosis.Failure{Kind: diagnosis.Unreachable}
	switch {
	case errors.Is(err, connect.ErrNotEtcd):
		f.Kind = diagnosis.NotEtcd
	case errors.Is(err, connect.ErrDenied):
		f.Kind = diagnosis.Denied
	}
	var ok bool
	if f.Description, f.Remedy, ok = connect.DescribeError(err); !ok {
		f.Description = findingText(err)
	}
	if f.Remedy == "" {
		f.Remedy = "check --etcd and that etcd runs there"
	}
	return f
}

// listEtcdMembers returns the members of etcd. From etcd 3.5 on, this needs no quorum.
func listEtcdMembers(ctx context.Context, client *clientv3.Client) (out []diagnosis.Member) {
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

// measureEndpoint records how long reads take, and how long creating and revoking leases takes, or the error of the
// first that fails. It also records whether a lease could be renewed, because a proxy may pass on everything
// except renewals. The connection is opened before. Requests of one kind are sent concurrently, so that all
// take no longer than one.
func (x *examiner) measureEndpoint(ctx context.Context, client *clientv3.Client, e *diagnosis.Endpoint) {
	read := func(ctx context.Context) error {
		_, err := client.Get(clientv3.WithRequireLeader(ctx), x.Keys.RangeStart(), clientv3.WithKeysOnly())
		if connect.LacksPermission(err) {
			return nil // etcd refuses only after the linearizable read
		}
		return err
	}
	if _, err := timeRequests(ctx, 1, func(ctx context.Context, _ int) error { return read(ctx) }); err != nil {
		e.ReadError = findingText(err)
		return
	}
	took, err := timeRequests(ctx, measuredReads, func(ctx context.Context, _ int) error { return read(ctx) })
	if err != nil {
		e.ReadError = findingText(err)
		return
	}
	e.Reads = took
	var granted [measuredLeases]*clientv3.LeaseGrantResponse
	took, err = timeRequests(ctx, measuredLeases, func(ctx context.Context, i int) (err error) {
		granted[i], err = client.Grant(ctx, int64(x.TTL/time.Second))
		return err
	})
	if err != nil {
		e.WriteError = findingText(err)
	} else {
		e.Writes, e.Granted = took, time.Duration(granted[0].TTL)*time.Second
		if _, err := timeRequests(ctx, 1, func(ctx context.Context, _ int) error {
			_, err := client.KeepAliveOnce(clientv3.WithRequireLeader(ctx), granted[0].ID)
			return err
		}); err != nil {
			e.RenewError = findingText(err)
		}
	}
	took, err = timeRequests(context.WithoutCancel(ctx), measuredLeases, func(ctx context.Context, i int) error {
		if granted[i] == nil {
			return nil
		}
		return revokeLease(ctx, client, granted[i].ID)
	})
	if err == nil && e.WriteError == "" {
		e.Writes = append(e.Writes, took...)
	}
}

// timeRequests calls do n times concurrently, each with the time-out of a step. It returns the durations, or an error.
func timeRequests(ctx context.Context, n int, do func(ctx context.Context, i int) error) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	took, errs := make([]time.Duration, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			began := time.Now()
			errs[i] = do(ctx, i)
			took[i] = time.Since(began)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return took, nil
}

// revokeLease revokes a lease, even if ctx has ended.
func revokeLease(ctx context.Context, client *clientv3.Client, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	_, err := client.Revoke(ctx, lease)
	return err
}
