//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/examples/chat/chatpb"
	"github.com/goverse/goverse/examples/internal/trial"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

const patience = 20 * time.Second

// TestMain runs the program itself in processes started by package trial.
func TestMain(m *testing.M) { trial.Main(m, main) }

func free(t *testing.T) string {
	t.Helper()
	address, err := port.Servers.Draw("127.0.0.1")
	require.NoError(t, err)
	return address
}

// start starts a node and waits until it is ready.
func start(t *testing.T, address string, args ...string) *fault.Process {
	t.Helper()
	p := trial.Program(t, append([]string{"-listen", address}, args...)...)
	require.Eventually(t, func() bool { return strings.Contains(p.Output(), "msg=ready") }, patience,
		5*time.Millisecond)
	return p
}

// enter returns a visitor that tries the nodes in this order.
func enter(t *testing.T, name string, addresses ...string) *visitor {
	t.Helper()
	v, err := newVisitor(strings.Join(addresses, ","), room1, name, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.close()) })
	return v
}

const room1 = "the first room, öffentlich" // any bytes are a key

// seen holds the messages that a subscriber has received.
type seen struct {
	mu   sync.Mutex
	all  []*chatpb.Message
	last atomic.Int64
}

func (s *seen) show(m *chatpb.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, m)
	s.last.Store(m.GetNumber())
}

// The room's node is repeatedly killed or stopped, while three visitors post and three subscribe, each
// initially through another node. All visitors see every acknowledged message once, in the same order.
func TestRoomSurvivesItsNodes(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	addresses := []string{free(t), free(t), free(t)}
	nodes := map[string]*fault.Process{}
	lookers := map[string]objectspb.ObjectsClient{}
	for _, address := range addresses {
		nodes[address] = start(t, address, "-etcd", etcd.Endpoint())
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
		lookers[address] = objectspb.NewObjectsClient(conn)
	}
	// owner returns the room's node and epoch, once the epoch is later than the given one.
	owner := func(after int64) (at string, epoch int64) {
		require.Eventually(t, func() bool {
			for address, looker := range lookers {
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				resp, err := looker.Describe(short, &objectspb.DescribeRequest{Key: []byte(room1)})
				cancel()
				if err == nil && len(resp.GetObjects()) > 0 && resp.GetObjects()[0].GetEpoch() > after {
					at, epoch = address, resp.GetObjects()[0].GetEpoch()
				}
			}
			return at != ""
		}, patience, 5*time.Millisecond)
		return at, epoch
	}

	ctx, stop := context.WithCancel(etcdtest.Context(t))
	defer stop()
	var subscriptions sync.WaitGroup
	defer subscriptions.Wait()
	defer stop()
	views := make([]seen, 3)
	for i := range views {
		v := enter(t, fmt.Sprint("subscriber ", i), slices.Concat(addresses[i:], addresses[:i])...)
		subscriptions.Go(func() { assert.ErrorIs(t, v.subscribe(ctx, views[i].show), context.Canceled) })
	}
	slowest := func() int64 { return min(views[0].last.Load(), views[1].last.Load(), views[2].last.Load()) }

	var posting sync.WaitGroup
	var posted atomic.Int64
	over := make(chan struct{})
	acknowledged := make([]map[string]int64, 3) // by poster and text
	for i := range acknowledged {
		v := enter(t, fmt.Sprint("poster ", i), slices.Concat(addresses[i:], addresses[:i])...)
		acknowledged[i] = map[string]int64{}
		posting.Go(func() {
			again := time.NewTicker(2 * time.Millisecond)
			defer again.Stop()
			for n := 0; ; {
				select {
				case <-again.C:
				case <-over:
					return
				}
				if posted.Load() > slowest()+maxMessages/2 { // no subscriber may miss messages that the room drops
					continue
				}
				text := fmt.Sprint("message ", n, " of poster ", i)
				number, err := v.post(ctx, text)
				if !assert.NoError(t, err) {
					return
				}
				acknowledged[i][text] = number
				posted.Store(max(posted.Load(), number)) // others may be faster; this only sets the pace
				n++
			}
		})
	}
	goesOn := func() {
		t.Helper()
		before := slowest()
		require.Eventually(t, func() bool { return slowest() >= before+30 }, patience, 2*time.Millisecond)
	}

	epoch := int64(0)
	for i := range 5 {
		goesOn()
		var at string
		at, epoch = owner(epoch)
		if i == 2 {
			trial.StopWithin(t, patience, nodes[at])
		} else {
			_, err := nodes[at].Kill()
			require.NoError(t, err)
		}
		goesOn()
		nodes[at] = start(t, at, "-etcd", etcd.Endpoint())
	}
	goesOn()
	close(over)
	posting.Wait()

	want := map[string]int64{}
	var last int64
	for _, one := range acknowledged {
		for text, number := range one {
			want[text], last = number, max(last, number)
		}
	}
	require.EqualValues(t, len(want), last, "each message has a number of its own, and none was stored twice")
	for i := range views {
		require.Eventually(t, func() bool { return views[i].last.Load() == last }, patience, time.Millisecond)
	}
	stop()
	subscriptions.Wait()
	for i := range views {
		require.Equal(t, len(want), len(views[i].all), "subscriber %d", i)
		for n, m := range views[i].all {
			require.EqualValues(t, n+1, m.GetNumber(), "subscriber %d", i)
			require.Equal(t, want[m.GetText()], m.GetNumber(), "subscriber %d: %s", i, m.GetText())
		}
	}
	t.Logf("%d messages", last)

	// Another visitor subscribes and gets the messages that are kept.
	ctx, leave := context.WithCancel(etcdtest.Context(t))
	defer leave()
	var delayed seen
	err := enter(t, "another", addresses...).subscribe(ctx, func(m *chatpb.Message) {
		if delayed.show(m); m.GetNumber() == last {
			leave()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, maxMessages, len(delayed.all))
	require.Equal(t, last-maxMessages+1, delayed.all[0].GetNumber())
	trial.Stop(t, slices.Collect(func(yield func(*fault.Process) bool) {
		for _, p := range nodes {
			if !yield(p) {
				return
			}
		}
	})...)
}

// One process is enough for two terminals.
func TestOneCommand(t *testing.T) {
	t.Parallel()
	at := free(t)
	p := start(t, at, "-etcd-listen", free(t))
	ann, annSays := terminal(t, at, "ann")
	bob, bobSays := terminal(t, at, "bob")
	for i, says := range []io.Writer{annSays, bobSays, annSays} {
		text := fmt.Sprint("hello ", i)
		_, err := fmt.Fprintln(says, text)
		require.NoError(t, err)
		for _, p := range []*fault.Process{ann, bob} {
			require.Eventually(t, func() bool { return strings.Contains(p.Output(), text) }, patience, time.Millisecond)
		}
	}
	require.Equal(t, "   1 ann: hello 0\n   2 bob: hello 1\n   3 ann: hello 2\n", bob.Output())
	require.NoError(t, annSays.Close())
	trial.Succeeds(t, ann)
	trial.StopWithin(t, patience, bob)

	v := enter(t, "ann", at)
	for _, text := range []string{"", "two\nlines", strings.Repeat("x", longest)} {
		_, err := v.post(etcdtest.Context(t), text)
		require.Equal(t, codes.InvalidArgument, status.Code(err), text)
	}
	trial.StopWithin(t, patience, p)
}

// terminal starts a terminal of the chat and returns its input.
func terminal(t *testing.T, node, name string) (*fault.Process, io.WriteCloser) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-nodes", node, "-join", "lobby", "-name", name)
	cmd.Env = append(os.Environ(), "GOVERSE_TEST_EXAMPLE=1") // as trial.Program has it
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	p, err := fault.StartProcess(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, input
}
