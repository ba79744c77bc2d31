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

// maxMessages limits the messages in a room. longest limits the bytes of each message with its sender. Both are small
// because each message rewrites the whole room.
const maxMessages, longest = 100, 1000

// room implements the Room service for one room. Posts take turns. Subscriptions run concurrently with them and
// read only the fields below mu.
type room struct {
	chatpb.UnimplementedRoomServer
	state *state.State[*chatpb.History] // used in turns only

	mu       sync.Mutex
	messages []*chatpb.Message // the stored messages; the slice and its elements are immutable
	last     int64             // the number of the last message
	changed  chan struct{}     // closed, and replaced, when messages is replaced
}

// register hosts the rooms, which keep their messages in store.
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
		h.Messages = slices.Delete(h.Messages, 0, max(0, len(h.Messages)-maxMessages))
		return &chatpb.PostResponse{Number: h.Last}, nil
	})
	if err != nil { // if the outcome of the write is unknown, the next activation reads it
		return nil, err
	}
	r.publish()
	return reply, nil
}

// publish shows the stored messages to the subscriptions. It must be called in turns only.
func (r *room) publish() {
	stored := r.state.Value()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == stored.GetLast() {
		return
	}
	var all []*chatpb.Message
	for _, m := range stored.GetMessages() {
		all = append(all, proto.CloneOf(m)) // the state owns its messages
	}
	r.messages, r.last = all, stored.GetLast()
	close(r.changed)
	r.changed = make(chan struct{})
}

// currentMessages returns the current messages, the number of the last one, and a channel that is closed when they
// change.
func (r *room) currentMessages() (messages []*chatpb.Message, last int64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.messages, r.last, r.changed
}

// Subscribe implements chatpb.RoomServer.
func (r *room) Subscribe(req *chatpb.SubscribeRequest, stream grpc.ServerStreamingServer[chatpb.Message]) error {
	after := req.GetAfter()
	for {
		messages, last, changed := r.currentMessages()
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
