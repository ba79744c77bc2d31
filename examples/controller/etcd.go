package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/leaderonly"
	"github.com/goverse/goverse/node"
)

// joinCluster makes this copy a node of a cluster in etcd, which also keeps the documents.
func joinCluster(_ context.Context, cfg config, log hclog.Logger) (coordination, error) {
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.listen, Logger: log})
	if err != nil {
		return coordination{}, err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.etcd, EtcdPrefix: cfg.prefix,
		HTTPAddress: cfg.advertise, Sharding: cluster.Sharding{Off: true}, Logger: log}, n)
	if err != nil {
		return coordination{}, err
	}
	etcd, err := cluster.NewEtcdClient(cluster.Config{EtcdAddress: cfg.etcd, Logger: log})
	if err != nil {
		return coordination{}, err
	}
	return coordination{
		name:     n.AdvertiseAddress(),
		store:    &etcdStore{etcd: etcd, prefix: cfg.prefix + "-data/", remember: cfg.remember},
		leads:    leaderonly.Cluster(c),
		pages:    httpapi.New(c, httpapi.Options{}),
		start:    c.Start,
		failed:   n.Done(), // a listener failed
		err:      n.Err,
		handOver: c.Stop,
		close:    func(context.Context) error { return etcd.Close() },
	}, nil
}

// etcdStore keeps documents and answers in etcd.
type etcdStore struct {
	etcd     *clientv3.Client
	prefix   string
	remember time.Duration

	mu    sync.Mutex
	lease clientv3.LeaseID // attached to the stored ids
	since time.Time        // when it was granted
}

func (s *etcdStore) documentKey(name string) string {
	return s.prefix + "configs/" + url.PathEscape(name)
}
func (s *etcdStore) writeKey(id string) string { return s.prefix + "writes/" + url.PathEscape(id) }

func (s *etcdStore) get(ctx context.Context, name string) ([]byte, error) {
	got, err := s.etcd.Get(ctx, s.documentKey(name))
	if err != nil || len(got.Kvs) == 0 {
		return nil, err
	}
	return got.Kvs[0].Value, nil
}

func (s *etcdStore) commit(ctx context.Context, a answer, value []byte) (before *answer, conflict bool, err error) {
	lease, err := s.leaseOfIDs(ctx)
	if err != nil {
		return nil, false, err
	}
	before, conflict, err = s.commitWith(ctx, lease, a, value)
	if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return before, conflict, err
	}
	// The lease was revoked out of band. Nothing was written.
	s.forget(lease)
	if lease, err = s.leaseOfIDs(ctx); err != nil {
		return nil, false, err
	}
	return s.commitWith(ctx, lease, a, value)
}

func (s *etcdStore) commitWith(ctx context.Context, lease clientv3.LeaseID, a answer, value []byte) (
	before *answer, conflict bool, err error) {
	term, _ := leaderonly.TermFrom(ctx)
	record, err := json.Marshal(a)
	if err != nil {
		return nil, false, err
	}
	change := clientv3.OpPut(s.documentKey(a.Name), string(value))
	ifs := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(s.writeKey(a.ID)), "=", 0)}
	switch a.Done {
	case "created":
		ifs = append(ifs, clientv3.Compare(clientv3.CreateRevision(s.documentKey(a.Name)), "=", 0))
	case "deleted":
		change = clientv3.OpDelete(s.documentKey(a.Name))
	}
	resp, err := term.Txn(ctx).If(ifs...).
		Then(change, clientv3.OpPut(s.writeKey(a.ID), string(record), clientv3.WithLease(lease))).
		Else(clientv3.OpGet(s.writeKey(a.ID))).Commit()
	if err != nil || resp.Succeeded {
		return nil, false, err
	}
	kvs := resp.Responses[0].GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return nil, true, nil
	}
	before = new(answer)
	return before, false, json.Unmarshal(kvs[0].Value, before)
}

// leaseOfIDs returns a lease that lasts for at least -remember. One lease serves many ids.
func (s *etcdStore) leaseOfIDs(ctx context.Context) (clientv3.LeaseID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease != 0 && time.Since(s.since) < s.remember {
		return s.lease, nil
	}
	since := time.Now()
	granted, err := s.etcd.Grant(ctx, int64((2*s.remember+time.Second-1)/time.Second))
	if err != nil {
		return 0, err
	}
	s.lease, s.since = granted.ID, since
	return s.lease, nil
}

// forget makes leaseOfIDs grant a new lease, unless it has already replaced the given one.
func (s *etcdStore) forget(lease clientv3.LeaseID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == lease {
		s.lease = 0
	}
}
