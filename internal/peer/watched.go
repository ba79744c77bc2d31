package peer

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// errEvicted ends the watch of a watcher that has not proved membership.
var errEvicted = status.Error(codes.ResourceExhausted,
	"this node does not know the watcher, and made room for another one")

type watchStream = grpc.BidiStreamingServer[nodepb.WatchRequest, nodepb.WatchResponse]

// Watch answers a watcher with this node's identity, and blocks until one of the two ends.
func (i identityService) Watch(stream watchStream) error {
	n := i.node
	w := &watcher{opened: time.Now(), challenge: newChallenge(), evicted: make(chan struct{})}
	if p, ok := peer.FromContext(stream.Context()); ok {
		w.connection = p.Addr.String()
	}
	if err := n.watchers.admitWatcher(w, n.watcherProved); err != nil {
		return err
	}
	defer n.watchers.removeWatcher(w)

	// A goroutine receives from the watcher. It ends with the stream, and the stream ends when Watch returns.
	first, gone := make(chan *nodepb.WatchRequest, 1), make(chan error, 1)
	var heard atomic.Uint64 // counts heartbeats
	n.watchers.wg.Go(func() {
		req, err := stream.Recv()
		if err == nil {
			first <- req
			req, err = stream.Recv()
		}
		if err == nil {
			w.recordProof(req.GetProof())
			n.watcherProved(w) // check now, because it may have left the cluster when the watch breaks
		}
		for err == nil {
			heard.Add(1)
			_, err = stream.Recv()
		}
		gone <- err
	})
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
	err, ended := n.serveWatcher(stream, w, beats, gone, &heard)
	if ended {
		if !errors.Is(err, io.EOF) { // without a goodbye
			n.lostWatcher(w)
		}
		return nil
	}
	return err
}

// serveWatcher sends heartbeats to a watcher that accepts them, until one of the two ends. Ended reports that the
// watcher ended the watch, with err.
func (n *Node) serveWatcher(stream watchStream, w *watcher, beats bool, gone <-chan error,
	heard *atomic.Uint64) (err error, ended bool) {
	ticker := time.NewTicker(heartbeat.SendEvery)
	defer ticker.Stop()
	if !beats {
		ticker.Stop()
	}
	var pace heartbeat.Sender
	for {
		select {
		case err := <-gone:
			return err, true
		case <-ticker.C:
			var send bool
			if pace, send = pace.OnTick(heard.Load()); !send {
				continue
			}
			if err := stream.Send(&nodepb.WatchResponse{}); err != nil {
				return <-gone, true
			}
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
