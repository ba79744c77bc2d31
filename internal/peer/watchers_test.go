package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// watchedBy returns a started node in a cluster with these members.
func watchedBy(t *testing.T, members map[string][]byte) *Node {
	t.Helper()
	n := local(t)
	n.SetRoster(func(instanceID string) ([]byte, bool) {
		key, member := members[instanceID]
		return key, member
	})
	require.NoError(t, n.Start())
	return n
}

// requireUnnoticed breaks a watch, and requires that the node notices that and ignores it.
func requireUnnoticed(t *testing.T, n *Node, w *Watch) {
	t.Helper()
	require.Zero(t, n.Watchers())
	w.cancel()
	require.Eventually(t, func() bool { return len(n.watchers.list()) == 0 }, time.Minute, time.Millisecond)
	require.NoError(t, n.Stop(patient(t))) // it has joined the watcher's goroutine
	require.False(t, lost(n))
}

func TestStrangersAreNotMissed(t *testing.T) {
	t.Parallel()
	member, stranger := local(t), local(t)
	n := watchedBy(t, map[string][]byte{member.InstanceID(): member.WatchKey()})
	w, err := stranger.OpenWatch(patient(t), n.AdvertiseAddress(), "", nil)
	require.NoError(t, err)
	defer w.Close(patient(t))
	requireUnnoticed(t, n, w)
}

// Any client learns the id of a node's process, but none its key.
func TestWatcherInAMembersNameIsNotMissed(t *testing.T) {
	t.Parallel()
	member, stranger := local(t), local(t)
	for name, open := range map[string]func(n *Node) (*Watch, error){
		"without a proof": func(n *Node) (*Watch, error) {
			return watcherName{instance: member.InstanceID()}.openWatch(patient(t), n.AdvertiseAddress(), "", nil, nil)
		},
		"with a proof of another": func(n *Node) (*Watch, error) {
			name := watcherName{instance: member.InstanceID(), key: stranger.key}
			return name.openWatch(patient(t), n.AdvertiseAddress(), "", nil, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := watchedBy(t, map[string][]byte{member.InstanceID(): member.WatchKey()})
			w, err := open(n)
			require.NoError(t, err)
			defer w.Close(patient(t))
			requireUnnoticed(t, n, w)
		})
	}
}

// A proof is valid for one watch of one node.
func TestProofIsOfOneWatch(t *testing.T) {
	member := local(t)
	challenge := newChallenge()
	proof := signProof(member.key, challenge, "watched")
	require.True(t, proofValid(member.WatchKey(), challenge, "watched", proof))
	require.False(t, proofValid(member.WatchKey(), challenge, "another", proof), "passed on to another node")
	require.False(t, proofValid(member.WatchKey(), newChallenge(), "watched", proof), "said again")
	require.False(t, proofValid(member.WatchKey(), nil, "watched", proof))
	require.False(t, proofValid(member.WatchKey(), challenge, "watched", nil))
	require.False(t, proofValid([]byte("short"), challenge, "watched", proof), "no key")
}

func TestMembersAreMissed(t *testing.T) {
	t.Parallel()
	member := local(t)
	for name, key := range map[string][]byte{"that prove it": member.WatchKey(), "of older versions": nil} {
		t.Run(name, func(t *testing.T) {
			n := watchedBy(t, map[string][]byte{member.InstanceID(): key})
			w, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "", nil)
			require.NoError(t, err)
			defer w.Close(patient(t))
			requireWatched(t, n)
			w.cancel()
			requireLost(t, n)
			require.NoError(t, n.Stop(patient(t)))
		})
	}
}

// A node may watch before the watched one has seen its record, and may be removed before its watch breaks.
func TestWatcherIsAMemberOnceIsEnough(t *testing.T) {
	t.Parallel()
	member := local(t)
	for name, at := range map[string]int{"known when the watch is there": 1, "known when it breaks": 2} {
		t.Run(name, func(t *testing.T) {
			n := local(t)
			known := make(chan bool, 1)
			known <- at == 1
			n.SetRoster(func(string) ([]byte, bool) {
				is := <-known
				known <- is
				return member.WatchKey(), is
			})
			require.NoError(t, n.Start())
			w, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "", nil)
			require.NoError(t, err)
			defer w.Close(patient(t))
			if at == 1 {
				require.Eventually(t, func() bool {
					all := n.watchers.list()
					return len(all) == 1 && !all[0].isStranger()
				}, 20*time.Second, time.Millisecond, "also where nobody asks for the number of watchers")
			}
			<-known
			known <- at == 2
			w.cancel()
			requireLost(t, n)
			require.NoError(t, n.Stop(patient(t)))
		})
	}
}

// The cost of strangers' watches is limited, however many they open, and a member finds room.
func TestStrangersAreBounded(t *testing.T) {
	t.Parallel()
	member := local(t)
	n := watchedBy(t, map[string][]byte{member.InstanceID(): member.WatchKey()})
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	open := func(client nodepb.NodeClient) (err error) {
		stream, err := client.Watch(ctx)
		if err == nil {
			err = stream.Send(&nodepb.WatchRequest{InstanceId: "stranger"})
		}
		if err == nil || errors.Is(err, io.EOF) { // it was refused already: receiving returns the reason
			_, err = stream.Recv()
		}
		return err
	}
	refused, client := 0, nodepb.NodeClient(nil)
	for i := range maxStrangers + 2*watchesPerConn {
		if i%watchesPerConn == 0 {
			client = nodepb.NewNodeClient(dial(t, n))
		}
		if err := open(client); err != nil {
			require.Equal(t, codes.ResourceExhausted, status.Code(err))
			refused++
		}
	}
	require.LessOrEqual(t, len(n.watchers.list()), maxStrangers)
	client = nodepb.NewNodeClient(dial(t, n))
	for range watchesPerConn {
		require.Eventually(t, func() bool { return open(client) == nil }, time.Minute, 10*time.Millisecond,
			"strangers make room after a second")
	}
	for range watchesPerConn {
		require.Equal(t, codes.ResourceExhausted, status.Code(open(client)), "more than one connection may have")
	}
	require.Eventually(t, func() bool {
		w, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "", nil)
		if err == nil {
			w.Close(patient(t))
		}
		return err == nil
	}, 20*time.Second, 10*time.Millisecond, "strangers make room after a second")
	_, err := watcherName{instance: string(make([]byte, maxInstanceID+1))}.openWatch(patient(t),
		n.AdvertiseAddress(), "", nil, nil)
	require.Error(t, err)
	require.LessOrEqual(t, len(n.watchers.list()), maxStrangers)
	t.Logf("%d of %d refused at first", refused, maxStrangers+2*watchesPerConn)
}

// relay answers like another node, and passes messages on.
type relay struct {
	nodepb.UnimplementedNodeServer
	to nodepb.NodeClient
}

// Watch implements nodepb.NodeServer.
func (r relay) Watch(from grpc.BidiStreamingServer[nodepb.WatchRequest, nodepb.WatchResponse]) error {
	to, err := r.to.Watch(from.Context())
	for err == nil {
		var req *nodepb.WatchRequest
		if req, err = from.Recv(); err != nil {
			break
		}
		if err = to.Send(req); err != nil {
			break
		}
		if req.GetProof() != nil {
			<-from.Context().Done()
			break
		}
		var resp *nodepb.WatchResponse
		if resp, err = to.Recv(); err == nil {
			err = from.Send(resp)
		}
	}
	return err
}

// A process at another address, perhaps that of a dead member, gets no valid proof by passing on a node's
// messages.
func TestProofIsNotPassedOn(t *testing.T) {
	t.Parallel()
	member := local(t)
	n := watchedBy(t, map[string][]byte{member.InstanceID(): member.WatchKey()})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	nodepb.RegisterNodeServer(server, relay{to: nodepb.NewNodeClient(dial(t, n))})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		require.NoError(t, <-served)
	}()
	w, err := member.OpenWatch(patient(t), listener.Addr().String(), "", nil)
	require.NoError(t, err)
	defer w.Close(patient(t))
	require.Equal(t, n.InstanceID(), w.InstanceID)
	require.Eventually(t, func() bool {
		all := n.watchers.list()
		if len(all) != 1 {
			return false
		}
		all[0].mu.Lock()
		defer all[0].mu.Unlock()
		return all[0].watching
	}, 20*time.Second, time.Millisecond)
	requireUnnoticed(t, n, w)
}

// An invalid proof is not stored, whatever its length.
func TestLongProofsAreNotKept(t *testing.T) {
	t.Parallel()
	n := watchedBy(t, nil)
	stream, err := nodepb.NewNodeClient(dial(t, n)).Watch(patient(t))
	require.NoError(t, err)
	require.NoError(t, stream.Send(&nodepb.WatchRequest{InstanceId: "stranger"}))
	_, err = stream.Recv()
	require.NoError(t, err)
	require.NoError(t, stream.Send(&nodepb.WatchRequest{Proof: make([]byte, 3<<20)}))
	require.Eventually(t, func() bool {
		w := n.watchers.list()[0]
		w.mu.Lock()
		defer w.mu.Unlock()
		require.LessOrEqual(t, len(w.proof), 64)
		return w.watching
	}, 20*time.Second, time.Millisecond)
}

// A watcher that has proved membership no longer counts as a stranger.
func TestStrangersMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all watchers
		newcomer := func() *watcher {
			return &watcher{opened: time.Now(), evicted: make(chan struct{})}
		}
		nobody := func(*watcher) bool { return false }
		var first *watcher
		for i := range maxStrangers {
			w := newcomer()
			w.connection = string(rune('a' + i))
			if first == nil {
				first = w
			}
			require.NoError(t, all.admitWatcher(w, nobody))
		}
		late := newcomer()
		require.Error(t, all.admitWatcher(late, nobody), "none has had the time to prove anything")
		<-time.After(proofTimeout) // of virtual time
		late = newcomer()
		require.NoError(t, all.admitWatcher(late, nobody))
		select {
		case <-first.evicted:
		default:
			t.Fatal("the oldest makes room")
		}
		require.Len(t, all.list(), maxStrangers)
		last := newcomer()
		last.connection = "another"
		require.NoError(t, all.admitWatcher(last, func(w *watcher) bool {
			w.member = w == late
			return w.member
		}))
	})
}

// A connection that has all the watches it may have is refused; no other watcher makes room for what it opens beyond.
func TestFullConnectionEvictsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all watchers
		nobody := func(*watcher) bool { return false }
		newcomer := func(connection string) *watcher {
			return &watcher{connection: connection, opened: time.Now(), evicted: make(chan struct{})}
		}
		require.NoError(t, all.admitWatcher(newcomer("another"), nobody))
		for range watchesPerConn {
			require.NoError(t, all.admitWatcher(newcomer("full"), nobody))
		}
		<-time.After(proofTimeout) // of virtual time
		for range 2 * watchesPerConn {
			require.Equal(t, codes.ResourceExhausted, status.Code(all.admitWatcher(newcomer("full"), nobody)))
		}
		require.Len(t, all.list(), 1+watchesPerConn)
	})
}

func TestHeartbeatsGoBothWays(t *testing.T) {
	t.Parallel()
	n := started(t)
	w := openWatch(t, n)
	require.True(t, w.Heartbeats())
	require.Eventually(t, func() bool { return w.Heard() >= 3 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, 1, n.Watchers(), "the watcher's own did not end the watch")
	w.Close(patient(t))
	require.False(t, lost(n), "nor spoil its goodbye")
}

// Neither side sends heartbeats to an older version, which would misinterpret them.
func TestOlderVersionsHearNoHeartbeats(t *testing.T) {
	t.Parallel()
	n := started(t)
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	stream, err := nodepb.NewNodeClient(dial(t, n)).Watch(ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&nodepb.WatchRequest{InstanceId: "older"}))
	_, err = stream.Recv()
	require.NoError(t, err)
	require.NoError(t, stream.Send(&nodepb.WatchRequest{InstanceId: "older"}))
	time.AfterFunc(1500*time.Millisecond, cancel)
	_, err = stream.Recv()
	require.Equal(t, codes.Canceled, status.Code(err), "nothing comes")
}
