package peer

import (
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/wait"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// errEvicted ends the watch of a watcher that has not proved membership.
var errEvicted = status.Error(codes.ResourceExhausted,
	"this node does not know the watcher, and made room for another one")

type watchStream = grpc.BidiStreamingServer[nodepb.WatchRequest, nodepb.WatchResponse]

// Watch answers a watcher with this node's identity, and blocks until one of the two ends.
func (i identityService) Watch(stream watchStream) error {
	n := i.node
	w := &watcher{opened: time.Now(), challenge: newChallenge(), evicted: make(chan struct{}),
		answered: wait.NewSignal(), armed: armedStream{number: n.streams.Add(1)}}
	if p, ok := peer.FromContext(stream.Context()); ok {
		w.connection = p.Addr.String()
	}
	if err := n.watchers.admitWatcher(w, n.watcherProved); err != nil {
		return err
	}
	defer n.watchers.removeWatcher(w)

	// A goroutine receives from the watcher. It ends with the stream, and the stream ends when Watch returns.
	first, gone := make(chan *nodepb.WatchRequest, 1), make(chan error, 1)
	n.watchers.wg.Go(func() { gone <- n.receiveFrom(stream, w, first) })
	var beats bool
	select {
	case req := <-first:
		if len(req.GetInstanceId()) > maxInstanceID {
			return status.Error(codes.InvalidArgument, "the instance id is too long")
		}
		w.mu.Lock()
		w.instance = req.GetInstanceId()
		w.mu.Unlock()
		beats = req.GetHeartbeats()
		w.acknowledges = beats && req.GetAcknowledges()
	case err := <-gone:
		return err
	case <-w.evicted:
		return errEvicted
	case <-n.endStreams:
		return status.Error(codes.Unavailable, "the node is stopping")
	}
	hello := &nodepb.WatchResponse{InstanceId: n.instanceID, Heartbeats: true, Challenge: w.challenge}
	if err := stream.Send(hello); err != nil {
		return err
	}
	err, ended := n.serveWatcher(stream, w, beats, gone)
	switch {
	case ended && errors.Is(err, io.EOF):
		return nil // with the status OK, from which the watcher infers that its goodbye was read: see Watch.Close
	case ended:
		n.lostWatcher(w)
	}
	return err
}

// receiveFrom receives from a watcher until it ends its side or the stream ends. It sends the first message to first,
// and returns io.EOF after a goodbye, which it has reported to the Armer then.
func (n *Node) receiveFrom(stream watchStream, w *watcher, first chan<- *nodepb.WatchRequest) error {
	req, err := stream.Recv()
	if err == nil {
		first <- req
		req, err = stream.Recv()
	}
	if err == nil {
		w.heard.Add(1)
		w.recordProof(req.GetProof())
		n.watcherProved(w) // check now, because it may have left the cluster when the watch breaks
		w.answered.Send()
	}
	reported := int64(0)
	for err == nil {
		if req, err = stream.Recv(); err == nil {
			w.heard.Add(1)
			w.armed.acknowledged(req.GetAcknowledged())
			if r := req.GetRemoval(); r > reported {
				reported = r
				n.removalReported(w, r)
			}
		}
	}
	// GRPC returns io.EOF only after the watcher has ended its side and all that it sent before was received, and
	// another error if the stream or the connection broke.
	if errors.Is(err, io.EOF) {
		w.armed.goodbye()
	}
	return err
}

// serveWatcher sends heartbeats to a watcher that accepts them, until one of the two ends. Ended reports that the
// watcher ended the watch, with err.
func (n *Node) serveWatcher(stream watchStream, w *watcher, beats bool, gone <-chan error) (err error, ended bool) {
	every := heartbeat.SendEvery
	timer := time.NewTimer(every)
	defer timer.Stop()
	if !beats {
		timer.Stop()
	}
	var pace heartbeat.Sender
	for {
		select {
		case err := <-gone:
			return err, true
		case <-w.answered:
			// Only from here on it is armed, and what it may leave unread counts anew. So neither the number of heartbeats
			// that arm it nor the time between them depends on when the goroutine that received the answer is scheduled.
			w.mayArm, pace = w.acknowledges, heartbeat.Sender{}
			if n.armerOf(w) != nil {
				timer.Reset(0) // arm it at once
			}
			continue
		case <-timer.C:
			var send bool
			// What the watcher leaves unread is bounded: any message of it counts, also an acknowledgement.
			if pace, send = pace.OnTick(w.heard.Load()); send {
				var m *nodepb.WatchResponse
				m, every = n.nextHeartbeat(w)
				if err := stream.Send(m); err != nil {
					return <-gone, true
				}
			}
			timer.Reset(every)
			continue
		case <-w.evicted:
			return errEvicted, false
		case <-n.endStreams:
		}
		select {
		case <-n.goodbye:
			if p, ok := peer.FromContext(stream.Context()); ok {
				n.listener.markDeparted(p.Addr)
			}
			return stream.Send(&nodepb.WatchResponse{Goodbye: true}), false
		default:
			return status.Error(codes.Unavailable, "the node was closed"), false
		}
	}
}

// watcherProved reports whether a watcher is a member that may watch this node.
func (n *Node) watcherProved(w *watcher) bool {
	return w.provedMember(watchedName(n.instanceID, n.advertise), n.roster.Load())
}

// Watchers returns the number of cluster members that watch this node now.
func (n *Node) Watchers() int {
	count := 0
	for _, w := range n.watchers.list() {
		if n.watcherProved(w) {
			count++
		}
	}
	return count
}

// lostWatcher signals that a member's watch broke. It ignores other watchers; otherwise any client could make
// this node give up its leadership.
func (n *Node) lostWatcher(w *watcher) {
	if !n.watcherProved(w) {
		return
	}
	n.log.Debug("lost a watcher", "instance", w.instance)
	n.watcherLost.Send()
}

// WatcherLost returns a channel that receives after a watcher's stream has ended without a goodbye. The watcher
// died, or cannot reach this node any more and may consider it dead. Several losses can result in one signal.
// Watchers that are not members are ignored: see SetRoster.
func (n *Node) WatcherLost() <-chan struct{} { return n.watcherLost }
