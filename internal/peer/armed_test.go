package peer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/etcd/deadline"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// recorder is a [heartbeat.Armer] that arms every watcher, and records the calls.
type recorder struct {
	next time.Duration // between two heartbeats

	mu       sync.Mutex
	number   uint64
	asked    map[uint64][]time.Time // by stream: when NextBeat was called
	names    map[uint64]string      // by stream: the instance
	acks     map[uint64][]uint64    // by stream: the numbers acknowledged
	goodbyes []uint64
	removals []int64  // the revisions reported
	faults   []string // calls that must not happen
}

func newRecorder(next time.Duration) *recorder {
	return &recorder{next: next, asked: map[uint64][]time.Time{}, names: map[uint64]string{}, acks: map[uint64][]uint64{}}
}

// NextBeat implements [heartbeat.Armer].
func (r *recorder) NextBeat(stream uint64, instance string) (heartbeat.Beat, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checkOpen("NextBeat", stream)
	r.number++
	r.asked[stream] = append(r.asked[stream], time.Now())
	r.names[stream] = instance
	return heartbeat.Beat{Number: r.number, Arming: stream, Watched: 11, Watcher: 12, Heard: 7,
		Times: deadline.ProofTimes{Acknowledged: 2800*time.Millisecond - 1, Read: time.Second}}, r.next
}

// Acknowledged implements [heartbeat.Armer].
func (r *recorder) Acknowledged(stream, number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checkOpen("Acknowledged", stream)
	r.acks[stream] = append(r.acks[stream], number)
}

// SaidGoodbye implements [heartbeat.Armer].
func (r *recorder) SaidGoodbye(stream uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checkOpen("SaidGoodbye", stream)
	if len(r.asked[stream]) == 0 {
		r.faults = append(r.faults, fmt.Sprintf("a goodbye on stream %d, which was not armed", stream))
	}
	r.goodbyes = append(r.goodbyes, stream)
}

// RemovalReported implements [heartbeat.Armer].
func (r *recorder) RemovalReported(revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removals = append(r.removals, revision)
}

// checkOpen records a call after the goodbye. The lock is held.
func (r *recorder) checkOpen(call string, stream uint64) {
	if slices.Contains(r.goodbyes, stream) {
		r.faults = append(r.faults, fmt.Sprintf("%s after the goodbye of stream %d", call, stream))
	}
}

// beats returns the number of heartbeats for a stream.
func (r *recorder) beats(stream uint64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked[stream])
}

// acknowledged returns the acknowledgements on a stream.
func (r *recorder) acknowledged(stream uint64) []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.acks[stream])
}

// requireEnd stops the node, and requires goodbyes on these streams, and no call that must not happen.
func (r *recorder) requireEnd(t *testing.T, n *Node, goodbyes ...uint64) {
	t.Helper()
	require.NoError(t, n.Stop(patient(t))) // it has joined the goroutines of all streams
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.faults)
	require.ElementsMatch(t, goodbyes, r.goodbyes)
}

// requireAcknowledged waits for acknowledgements on a stream.
func (r *recorder) requireAcknowledged(t *testing.T, stream uint64, atLeast int) []uint64 {
	t.Helper()
	require.Eventually(t, func() bool { return len(r.acknowledged(stream)) >= atLeast }, time.Minute, time.Millisecond)
	return r.acknowledged(stream)
}

// reported returns the revisions of the removals that were reported.
func (r *recorder) reported() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.removals)
}

// armedNode returns a started node with an Armer, and a member that may watch it.
func armedNode(t *testing.T, a heartbeat.Armer) (n, member *Node) {
	t.Helper()
	member = local(t)
	return nodeArming(t, a, member), member
}

// nodeArming returns a node that may arm these members.
func nodeArming(t *testing.T, a heartbeat.Armer, members ...*Node) *Node {
	t.Helper()
	roster := map[string][]byte{}
	for _, m := range members {
		roster[m.InstanceID()] = m.WatchKey()
	}
	n := watchedBy(t, roster)
	n.SetArmer(a)
	return n
}

func acknowledgeAll(heartbeat.Beat) bool { return true }

// watchByHand opens a stream in a member's name, which it proves. The hello is completed. It receives nothing after
// the node's first message.
func watchByHand(t *testing.T, n, member *Node, hello *nodepb.WatchRequest) nodepb.Node_WatchClient {
	t.Helper()
	stream, err := nodepb.NewNodeClient(dial(t, n)).Watch(patient(t))
	require.NoError(t, err)
	hello.InstanceId = member.InstanceID()
	require.NoError(t, stream.Send(hello))
	first, err := stream.Recv()
	require.NoError(t, err)
	proof := signProof(member.key, first.GetChallenge(), watchedName(n.InstanceID(), n.AdvertiseAddress()))
	require.NoError(t, stream.Send(&nodepb.WatchRequest{Proof: proof}))
	return stream
}

func TestMembersAreArmed(t *testing.T) {
	t.Parallel()
	r := newRecorder(5 * time.Millisecond)
	n, member := armedNode(t, r)
	var heard []heartbeat.Beat // used by the watch's goroutine until Close has returned
	for stream := uint64(1); stream <= 3; stream++ {
		heard = nil
		w, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "", func(b heartbeat.Beat) bool {
			heard = append(heard, b)
			return true
		})
		require.NoError(t, err)
		r.requireAcknowledged(t, stream, 10)
		require.True(t, w.Close(patient(t)))
		require.True(t, w.Close(patient(t)), "and it still is received")

		r.mu.Lock()
		require.Equal(t, stream, r.goodbyes[len(r.goodbyes)-1], "before Close returns")
		require.Equal(t, member.InstanceID(), r.names[stream])
		r.mu.Unlock()
		first := heard[0]
		require.Equal(t, heartbeat.Beat{Number: first.Number, Arming: stream, Watched: 11, Watcher: 12, Heard: 7,
			Times: deadline.ProofTimes{Acknowledged: 2800 * time.Millisecond, Read: time.Second}}, first)
		numbers := make([]uint64, len(heard))
		for i, b := range heard {
			numbers[i] = b.Number
			require.Equal(t, first.Number+uint64(i), b.Number, "in order, and all")
		}
		acks := r.acknowledged(stream)
		require.True(t, slices.IsSorted(acks))
		require.Len(t, slices.Compact(slices.Clone(acks)), len(acks), "each once")
		require.Subset(t, numbers, acks)
	}
	r.requireEnd(t, n, 1, 2, 3)
	require.False(t, lost(n))
}

// The Armer determines the time between heartbeats, which are not rarer than those to other watchers.
func TestPaceOfArmedHeartbeats(t *testing.T) {
	t.Parallel()
	r := newRecorder(10 * time.Millisecond)
	n, member := armedNode(t, r)
	other := openWatch(t, n)
	w, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "", acknowledgeAll)
	require.NoError(t, err)
	defer w.Close(patient(t))
	require.Eventually(t, func() bool { return r.beats(2) >= 200 }, time.Minute, time.Millisecond)
	require.Less(t, other.Heard(), uint64(100))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, at := range r.asked[2][1:] {
		require.GreaterOrEqual(t, at.Sub(r.asked[2][i]), r.next)
	}
	for _, wrong := range []time.Duration{-1, 0, time.Hour} {
		answered := &watcher{mayArm: true, watching: true, member: true, signed: true}
		n.SetArmer(newRecorder(wrong))
		_, next := n.nextHeartbeat(answered)
		require.Equal(t, heartbeat.SendEvery, next)
	}
}

// A member is armed as soon as it has proved membership.
func TestArmedAtOnce(t *testing.T) {
	t.Parallel()
	n, member := armedNode(t, newRecorder(time.Hour))
	require.Eventually(t, func() bool {
		first := make(chan struct{}, 1)
		began := time.Now()
		w, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "", func(heartbeat.Beat) bool {
			select {
			case first <- struct{}{}:
			default:
			}
			return true
		})
		require.NoError(t, err)
		<-first
		took := time.Since(began)
		w.Close(patient(t))
		return took < heartbeat.SendEvery
	}, time.Minute, time.Millisecond, "the first waits for the time of a heartbeat")
}

// Only members that have proved it by their signature, and that acknowledge heartbeats, are armed.
func TestOthersAreNotArmed(t *testing.T) {
	t.Parallel()
	member, stranger := local(t), local(t)
	roster := map[string][]byte{member.InstanceID(): member.WatchKey()}
	byName := map[string][]byte{member.InstanceID(): nil}
	for name, c := range map[string]struct {
		roster map[string][]byte
		open   func(t *testing.T, n *Node) (*Watch, error)
	}{
		"a stranger": {roster, func(t *testing.T, n *Node) (*Watch, error) {
			return stranger.OpenWatch(patient(t), n.AdvertiseAddress(), "", acknowledgeAll)
		}},
		"a member's name": {roster, func(t *testing.T, n *Node) (*Watch, error) {
			name := watcherName{instance: member.InstanceID()}
			return name.openWatch(patient(t), n.AdvertiseAddress(), "", acknowledgeAll, nil)
		}},
		"another's signature": {roster, func(t *testing.T, n *Node) (*Watch, error) {
			name := watcherName{instance: member.InstanceID(), key: stranger.key}
			return name.openWatch(patient(t), n.AdvertiseAddress(), "", acknowledgeAll, nil)
		}},
		"a record without a key": {byName, func(t *testing.T, n *Node) (*Watch, error) {
			return member.OpenWatch(patient(t), n.AdvertiseAddress(), "", acknowledgeAll)
		}},
		"no roster": {nil, func(t *testing.T, n *Node) (*Watch, error) {
			return member.OpenWatch(patient(t), n.AdvertiseAddress(), "", acknowledgeAll)
		}},
		"no acknowledgements": {roster, func(t *testing.T, n *Node) (*Watch, error) {
			return member.OpenWatch(patient(t), n.AdvertiseAddress(), "", nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := local(t)
			if c.roster != nil {
				n.SetRoster(func(instanceID string) ([]byte, bool) {
					key, known := c.roster[instanceID]
					return key, known
				})
			}
			r := newRecorder(time.Millisecond)
			n.SetArmer(r)
			require.NoError(t, n.Start())
			w, err := c.open(t, n)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return w.Heard() >= 2 }, time.Minute, time.Millisecond)
			require.True(t, w.Close(patient(t)))
			require.Zero(t, r.beats(1))
			r.requireEnd(t, n)
		})
	}
}

// Older versions announce no acknowledgements. A watcher that takes no heartbeats cannot be armed either.
func TestOlderWatchersAreNotArmed(t *testing.T) {
	t.Parallel()
	r := newRecorder(time.Millisecond)
	n, member := armedNode(t, r)
	older := watchByHand(t, n, member, &nodepb.WatchRequest{Heartbeats: true})
	silent := watchByHand(t, n, member, &nodepb.WatchRequest{Acknowledges: true})
	for range 2 {
		m, err := older.Recv()
		require.NoError(t, err)
		require.Nil(t, m.GetBeat())
		require.NoError(t, older.Send(&nodepb.WatchRequest{Acknowledged: 1})) // not asked for
	}
	for _, stream := range []nodepb.Node_WatchClient{older, silent} {
		require.NoError(t, stream.CloseSend())
		m, err := stream.Recv()
		for err == nil {
			require.Nil(t, m.GetBeat())
			m, err = stream.Recv()
		}
		require.ErrorIs(t, err, io.EOF)
	}
	require.Empty(t, r.acknowledged(1), "it was not armed")
	require.Zero(t, r.beats(1)+r.beats(2))
	r.requireEnd(t, n)
}

// A member may watch before the watched one has seen its record, and before there is an Armer.
func TestMembersAreArmedLater(t *testing.T) {
	t.Parallel()
	member := local(t)
	n := local(t)
	var known atomic.Bool
	n.SetRoster(func(string) ([]byte, bool) { return member.WatchKey(), known.Load() })
	require.NoError(t, n.Start())
	w, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "", acknowledgeAll)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.Heard() >= 1 }, time.Minute, time.Millisecond)
	r := newRecorder(time.Millisecond)
	n.SetArmer(r)
	heard := w.Heard()
	require.Eventually(t, func() bool { return w.Heard() > heard }, time.Minute, time.Millisecond)
	require.Zero(t, r.beats(1))
	known.Store(true)
	r.requireAcknowledged(t, 1, 3)
	require.True(t, w.Close(patient(t)))
	r.requireEnd(t, n, 1)
}

// A stream that breaks is no goodbye: the watcher stays armed.
func TestBrokenStreamIsNoGoodbye(t *testing.T) {
	t.Parallel()
	r := newRecorder(5 * time.Millisecond)
	n, member := armedNode(t, r)
	w, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "", acknowledgeAll)
	require.NoError(t, err)
	r.requireAcknowledged(t, 1, 1)
	w.cancel()
	requireLost(t, n)
	require.False(t, w.Close(patient(t)))

	// What cannot be received ends the watch, although the watcher goes on and ends its side.
	stream := watchByHand(t, n, member, &nodepb.WatchRequest{Heartbeats: true, Acknowledges: true})
	require.Eventually(t, func() bool { return r.beats(2) > 0 }, time.Minute, time.Millisecond)
	if err := stream.Send(&nodepb.WatchRequest{Proof: make([]byte, 5<<20)}); err != nil {
		require.ErrorIs(t, err, io.EOF)
	}
	require.NoError(t, stream.CloseSend())
	for err == nil {
		_, err = stream.Recv()
	}
	require.False(t, errors.Is(err, io.EOF), "it is not the status of a goodbye")
	requireLost(t, n)
	r.requireEnd(t, n)
}

// Watchers come and go while heartbeats are sent: no call follows a goodbye, and each is reported once.
func TestGoodbyesBetweenHeartbeats(t *testing.T) {
	t.Parallel()
	r := newRecorder(time.Nanosecond)
	watchers, times := []*Node{local(t), local(t), local(t), local(t)}, 25
	n := nodeArming(t, r, watchers...)
	var wg sync.WaitGroup
	for _, member := range watchers {
		wg.Go(func() {
			for range times {
				armed := make(chan struct{})
				once := sync.OnceFunc(func() { close(armed) })
				w, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "", func(heartbeat.Beat) bool { once(); return true })
				if err != nil {
					t.Error(err)
					return
				}
				<-armed
				if !w.Close(patient(t)) {
					t.Error("the node has not received a goodbye")
				}
			}
		})
	}
	wg.Wait()
	all := make([]uint64, len(watchers)*times)
	for i := range all {
		all[i] = uint64(i + 1)
	}
	r.requireEnd(t, n, all...)
}

// A member that sends nothing is sent a bounded number of heartbeats, until it sends something.
func TestUnreadBeatsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRecorder(2 * time.Millisecond)
	member, other := local(t), local(t)
	n := nodeArming(t, r, member, other)
	stream := watchByHand(t, n, member, &nodepb.WatchRequest{Heartbeats: true, Acknowledges: true})
	require.Eventually(t, func() bool { return r.beats(1) > 0 }, time.Minute, time.Millisecond)
	w, err := other.OpenWatch(patient(t), n.AdvertiseAddress(), "", acknowledgeAll)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.beats(1) >= 21 && r.beats(2) >= 500 }, time.Minute, time.Millisecond)
	require.Equal(t, 21, r.beats(1), "20, and the one at once")
	require.NoError(t, stream.Send(&nodepb.WatchRequest{Acknowledged: 7}))
	require.Eventually(t, func() bool { return r.beats(1) >= 42 && r.beats(2) >= 1000 }, time.Minute, time.Millisecond)
	require.Equal(t, 42, r.beats(1))
	require.Equal(t, []uint64{7}, r.requireAcknowledged(t, 1, 1))
	require.True(t, w.Close(patient(t)))
	require.NoError(t, stream.CloseSend())
	received := 0
	for {
		m, err := stream.Recv()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
		if m.GetBeat() != nil {
			received++
		}
	}
	require.Equal(t, 42, received, "the Armer is asked only for heartbeats that are sent")
	r.requireEnd(t, n, 1, 2)
}
