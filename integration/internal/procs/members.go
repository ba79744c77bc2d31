//go:build unix

package procs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
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
	// askMember limits one request to one member.
	askMember = time.Second
	// membersPatience limits an operation of all members, on a machine that may be busy.
	membersPatience = time.Minute
)

// Members is an etcd cluster with each member in a process of its own.
type Members struct {
	// Endpoints holds the host:port of each member for its clients.
	Endpoints []string
	// Processes holds the members' processes.
	Processes []*Process

	kit     *Kit
	flavour Flavour
	configs []Member // as the members were started
	places  []Place
	clients []*clientv3.Client // one per member, connected to that member only
	user    string             // of the clients
}

// StartMembers starts an etcd cluster of n members and returns once all of them answer. An election timeout of
// 0 means etcd's default. If the flavour is not installed, the test is skipped or fails as with StartEtcd.
func (k *Kit) StartMembers(t testing.TB, flavour Flavour, n int, election time.Duration) *Members {
	t.Helper()
	return k.startMembers(t, flavour, k.Addresses(t, 2*n), make([]Place, n), election)
}

// Place is a place for a member of etcd.
type Place struct {
	// IP is the address at which it listens.
	IP string
	// Command returns the program and the arguments that run a program there; nil if it needs no others.
	Command func(path string, args []string) (string, []string)
}

// StartMembersAt is like StartMembers, with a member at each place, and with etcd's default timing.
func (k *Kit) StartMembersAt(t testing.TB, flavour Flavour, places ...Place) *Members {
	t.Helper()
	var clients, peers []string
	for _, p := range places {
		// The address may be one of another network, in which every port is free.
		two := k.Addresses(t, 2)
		for i, into := range []*[]string{&clients, &peers} {
			_, port, err := net.SplitHostPort(two[i])
			require.NoError(t, err)
			*into = append(*into, net.JoinHostPort(p.IP, port))
		}
	}
	return k.startMembers(t, flavour, append(clients, peers...), places, 0)
}

// startMembers starts a cluster with half of the addresses for clients, the others for its members.
func (k *Kit) startMembers(t testing.TB, flavour Flavour, addresses []string, places []Place,
	election time.Duration) *Members {
	t.Helper()
	if flavour == Etcd34 {
		requireEtcd34(t, etcdPath, "etcd Version: 3.4.", "etcd-server", "--version")
	}
	n, dir := len(addresses)/2, t.TempDir()
	m := &Members{Endpoints: addresses[:n], Processes: make([]*Process, n), kit: k, flavour: flavour,
		places: places}
	for i, endpoint := range m.Endpoints {
		m.configs = append(m.configs, Member{Dir: filepath.Join(dir, fmt.Sprint(i)), Client: endpoint,
			Peer: addresses[n+i], Peers: addresses[n:], Election: election})
		m.startMember(t, i)
	}
	for _, endpoint := range m.Endpoints {
		m.clients = append(m.clients, m.dial(t, endpoint))
	}
	m.AwaitHealthy(t)
	return m
}

// startMember starts member i, again with its data if it has run before.
func (m *Members) startMember(t testing.TB, i int) {
	t.Helper()
	path, args, env, err := m.configs[i].commandParts(m.flavour)
	require.NoError(t, err)
	if command := m.places[i].Command; command != nil {
		path, args = command(path, args)
	}
	m.Processes[i] = m.kit.Start(t, fmt.Sprintf("member %d of %s", i, m.flavour), path, args, env)
}

// Restart kills member i, starts it again with its data, and returns when all members agree on their leader. The
// member must be one of those that StartMembers started.
func (m *Members) Restart(t testing.TB, i int) {
	t.Helper()
	m.Processes[i].Kill(t)
	m.startMember(t, i)
	m.AwaitHealthy(t)
}

// dial returns a client of the member at endpoint, once that lets it log in.
func (m *Members) dial(t testing.TB, endpoint string) (client *clientv3.Client) {
	t.Helper()
	Await(t, membersPatience, "a member of etcd lets a client log in", func() (err error) {
		client, err = clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second,
			Username: m.user, Password: m.user, Logger: zap.NewNop()})
		return err
	})
	t.Cleanup(func() { _ = client.Close() }) // the error reports only the cancelled context
	return client
}

// LogIn makes m administer etcd as a user, whose password is its name. Use it when access control has been turned on.
func (m *Members) LogIn(t testing.TB, user string) {
	t.Helper()
	m.user = user
	for i, endpoint := range m.Endpoints {
		m.clients[i] = m.dial(t, endpoint)
	}
}

// Client returns a client of member i alone, which is closed with the test.
func (m *Members) Client(i int) *clientv3.Client { return m.clients[i] }

// Peers returns the addresses at which the members reach each other.
func (m *Members) Peers() []string { return m.configs[0].Peers }

// Status returns member i's view of etcd. It waits for a second at most.
func (m *Members) Status(ctx context.Context, i int) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askMember)
	defer cancel()
	return m.clients[i].Status(ctx, m.Endpoints[i])
}

// AwaitHealthy waits until all members agree on their leader.
func (m *Members) AwaitHealthy(t testing.TB) {
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

// IDs returns the ids of the members.
func (m *Members) IDs(t testing.TB) (ids []uint64) {
	t.Helper()
	for i := range m.clients {
		st, err := m.Status(t.Context(), i)
		require.NoError(t, err)
		ids = append(ids, st.Header.MemberId)
	}
	return ids
}

// AwaitOtherLeader waits until member i knows that etcd is led by another member than the one with that id.
func (m *Members) AwaitOtherLeader(t testing.TB, i int, id uint64) {
	t.Helper()
	Await(t, membersPatience, fmt.Sprintf("member %d knows another leader of etcd than %x", i, id), func() error {
		st, err := m.Status(context.Background(), i)
		if err == nil && (st.Leader == 0 || st.Leader == id) {
			err = fmt.Errorf("it knows that %x leads", st.Leader)
		}
		return err
	})
}

// MoveLeaderTo makes member i etcd's leader, and returns when all members agree on that.
func (m *Members) MoveLeaderTo(t testing.TB, i int) {
	t.Helper()
	m.AwaitHealthy(t)
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
	m.AwaitHealthy(t)
}

// Replace adds a member at new addresses. When that serves, it takes the place of member i in m, and member i
// is removed from the cluster and killed. Replace returns when all members agree on their leader again. It
// requires etcd 3.7.
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
	// etcd refuses a change while one of its members has only just connected.
	change("a member is added", func(ctx context.Context) error {
		_, err := asking.MemberAdd(ctx, []string{"http://" + peer})
		if errors.Is(err, rpctypes.ErrPeerURLExist) {
			return nil // by a request that lost its answer
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
	m.clients[i] = m.dial(t, client)
	m.AwaitHealthy(t)
	change("a member is removed", func(ctx context.Context) error {
		_, err := asking.MemberRemove(ctx, old.Header.MemberId)
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil // as above
		}
		return err
	})
	former.Kill(t)
	m.AwaitHealthy(t)
}
