package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/examples/chat/chatpb"
)

// kept is how many messages a room keeps, and longest how many bytes each may have, with its sender: a room is written
// anew with each message.
const kept, longest = 100, 1000

// room is one room. Posts take turns; subscriptions run beside them, on what they share under the lock.
type room struct {
	chatpb.UnimplementedRoomServer
	state *state.State[*chatpb.History] // for turns alone

	mu       sync.Mutex
	messages []*chatpb.Message // those that are stored; neither the slice nor a message is changed any more
	last     int64             // the number of the last one
	changed  chan struct{}     // closed when there are others
}

// register hosts the rooms, whose messages are in the store.
func register(c *cluster.Cluster, store state.Store) {
	objects.Register(c, chatpb.RegisterRoomServer,
		func(ctx context.Context, o *objects.Object) (chatpb.RoomServer, error) {
			s, err := state.Load(ctx, store, o, &chatpb.History{})
			if err != nil {
				return nil, err
			}
			r := &room{state: s, changed: make(chan struct{})}
			r.publish()
			return r, nil
		}, objects.Concurrent("Subscribe"))
}

// Post implements chatpb.RoomServer.
func (r *room) Post(ctx context.Context, req *chatpb.PostRequest) (*chatpb.PostResponse, error) {
	switch all := req.GetFrom() + req.GetText(); {
	case req.GetFrom() == "" || req.GetText() == "":
		return nil, status.Error(codes.InvalidArgument, "a message needs a sender and a text")
	case len(all) > longest || strings.ContainsFunc(all, unicode.IsControl):
		return nil, status.Errorf(codes.InvalidArgument, "a message is one line, of at most %d bytes", longest)
	}
	id, _ := state.RequestID(ctx)
	reply, err := state.Do(ctx, r.state, id, func(context.Context) (*chatpb.PostResponse, error) {
		h := r.state.Value()
		h.Last++
		h.Messages = append(h.Messages, &chatpb.Message{Number: h.Last, From: req.GetFrom(), Text: req.GetText()})
		h.Messages = slices.Delete(h.Messages, 0, max(0, len(h.Messages)-kept))
		return &chatpb.PostResponse{Number: h.Last}, nil
	})
	if err != nil { // if it is not known whether it was stored, the next activation sees that
		return nil, err
	}
	r.publish()
	return reply, nil
}

// publish shows what is stored to the subscriptions. It is called in turns alone.
func (r *room) publish() {
	stored := r.state.Value()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == stored.GetLast() {
		return
	}
	var all []*chatpb.Message
	for _, m := range stored.GetMessages() {
		all = append(all, proto.CloneOf(m)) // what the state has is its own
	}
	r.messages, r.last = all, stored.GetLast()
	close(r.changed)
	r.changed = make(chan struct{})
}

// look is what the room has now, and what is closed when it has something else.
func (r *room) look() (messages []*chatpb.Message, last int64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.messages, r.last, r.changed
}

// Subscribe implements chatpb.RoomServer.
func (r *room) Subscribe(req *chatpb.SubscribeRequest, stream grpc.ServerStreamingServer[chatpb.Message]) error {
	after := req.GetAfter()
	for {
		messages, last, changed := r.look()
		if after > last {
			return status.Errorf(codes.OutOfRange, "the room has %d messages, and no number %d", last, after)
		}
		for _, m := range messages {
			if m.GetNumber() <= after {
				continue
			}
			if err := stream.Send(m); err != nil {
				return err
			}
			after = m.GetNumber()
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}
