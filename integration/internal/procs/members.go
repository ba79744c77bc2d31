//go:build unix

package procs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// askMember bounds one question to one member.
	askMember = time.Second
	// membersPatience bounds what takes all members, on a machine that may be busy.
	membersPatience = time.Minute
)

// Members is an etcd cluster whose members are processes of their own.
type Members struct {
	// Endpoints are the host:port of each member for its clients.
	Endpoints []string
	// Processes are the members.
	Processes []*Process

	clients []*clientv3.Client // of each member alone
}

// StartMembers starts an etcd cluster of n members and returns once all of them answer. An
// election time-out of 0 is etcd's default. Where the flavour is not installed, the test is
// skipped, or fails as with StartEtcd.
func (k *Kit) StartMembers(t testing.TB, flavour Flavour, n int, election time.Duration) *Members {
	t.Helper()
	if flavour == Etcd34 {
		need34(t, etcdPath, "etcd Version: 3.4.", "etcd-server", "--version")
	}
	addresses, dir := k.Addresses(t, 2*n), t.TempDir()
	m := &Members{Endpoints: addresses[:n]}
	for i, endpoint := range m.Endpoints {
		path, args, env, err := Member{Dir: filepath.Join(dir, fmt.Sprint(i)), Client: endpoint, Peer: addresses[n+i],
			Peers:    addresses[n:],
			Election: election}.program(flavour)
		require.NoError(t, err)
		m.Processes = append(m.Processes, k.Start(t, fmt.Sprintf("member %d of %s", i, flavour), path, args, env))
	}
	for _, endpoint := range m.Endpoints {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second,
			Logger: zap.NewNop()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() }) // its error is that its context was cancelled
		m.clients = append(m.clients, client)
	}
	m.AwaitWell(t)
	return m
}

// Client is a client of one member alone, closed with the test.
func (m *Members) Client(i int) *clientv3.Client { return m.clients[i] }

// Status is what a member says of etcd, within a second.
func (m *Members) Status(ctx context.Context, i int) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askMember)
	defer cancel()
	return m.clients[i].Status(ctx, m.Endpoints[i])
}

// AwaitWell waits until all members are of one mind about who leads them.
func (m *Members) AwaitWell(t testing.TB) {
	t.Helper()
	Await(t, membersPatience, "all members of etcd agree who leads them", func() error {
		var leader uint64
		for i := range m.Endpoints {
			st, err := m.Status(context.Background(), i)
			switch {
			case err != nil:
				return err
			case st.Leader == 0 || leader != 0 && st.Leader != leader || len(st.Errors) > 0:
				return fmt.Errorf("member %d says that %x leads, another that %x does %v", i, st.Leader, leader, st.Errors)
			}
			leader = st.Leader
		}
		return nil
	})
}

// Lead makes a member etcd's leader, and returns when all members know that.
func (m *Members) Lead(t testing.TB, i int) {
	t.Helper()
	m.AwaitWell(t)
	Await(t, membersPatience, fmt.Sprintf("member %d leads etcd", i), func() error {
		want, err := m.Status(context.Background(), i)
		if err != nil || want.Leader == want.Header.MemberId {
			return err
		}
		for other := range m.Endpoints {
			st, err := m.Status(context.Background(), other)
			if err == nil && st.Leader == st.Header.MemberId {
				ctx, cancel := context.WithTimeout(context.Background(), askMember)
				defer cancel()
				_, err = m.clients[other].MoveLeader(ctx, want.Header.MemberId)
			}
			if err != nil {
				return err
			}
		}
		return errors.New("it has been asked to move")
	})
	m.AwaitWell(t)
}
