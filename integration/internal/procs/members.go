//go:build unix

package procs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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

// Replace adds a member at new addresses, and when it serves removes member i, whose place it takes here, and kills it.
// It returns when all are of one mind again. It is for etcd 3.7.
func (m *Members) Replace(t testing.TB, k *Kit, i int) {
	t.Helper()
	old, err := m.Status(context.Background(), i)
	require.NoError(t, err)
	asking, addresses := m.clients[(i+1)%len(m.clients)], k.Addresses(t, 2)
	client, peer := addresses[0], addresses[1]
	change := func(what string, do func(ctx context.Context) error) {
		Await(t, membersPatience, what, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 5*askMember)
			defer cancel()
			return do(ctx)
		})
	}
	// etcd takes no change while one of its members has only just connected.
	change("a member is added", func(ctx context.Context) error {
		_, err := asking.MemberAdd(ctx, []string{"http://" + peer})
		if errors.Is(err, rpctypes.ErrPeerURLExist) {
			return nil // by a request whose answer was lost
		}
		return err
	})
	var joins []string
	change("etcd names its members", func(ctx context.Context) error {
		all, err := asking.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, one := range all.Members {
			joins = append(joins, cmp.Or(one.Name, peer)+"="+one.PeerURLs[0])
		}
		return nil
	})
	config, err := json.Marshal(serveConfig{DataDir: t.TempDir(), Client: client, Peer: peer,
		Joins: strings.Join(joins, ",")})
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	former := m.Processes[i]
	m.Endpoints[i] = client
	m.Processes[i] = k.Start(t, "member "+client, self, nil, []string{serveEnv + "=" + string(config)})
	own, err := clientv3.New(clientv3.Config{Endpoints: []string{client}, DialTimeout: 5 * time.Second,
		Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = own.Close() }) // its error is that its context was cancelled
	m.clients[i] = own
	m.AwaitWell(t)
	change("a member is removed", func(ctx context.Context) error {
		_, err := asking.MemberRemove(ctx, old.Header.MemberId)
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil // as above
		}
		return err
	})
	former.Kill(t)
	m.AwaitWell(t)
}
