package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/examples/chat/chatpb"
)

const (
	// attemptTimeout is for how long a post waits for its answer before it is repeated.
	attemptTimeout = 5 * time.Second
	// pause is before the next node is asked.
	pause = 50 * time.Millisecond
	// silence is after how long a connection is probed.
	silence = 5 * time.Second
)

// visitor is in one room, by whichever node answers. It is no node: any program, in any language, can do what it does.
type visitor struct {
	room, name string
	conns      []*grpc.ClientConn
	now        atomic.Int64 // the connection that answered last, modulo their number
	log        *slog.Logger
}

// visit connects to nodes, whose addresses have commas between. close is to be called.
func visit(nodes, room, name string, log *slog.Logger) (*visitor, error) {
	v := &visitor{room: room, name: name, log: log}
	for address := range strings.SplitSeq(nodes, ",") {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: silence, Timeout: silence}))
		if err != nil {
			return nil, errors.Join(err, v.close())
		}
		v.conns = append(v.conns, conn)
	}
	return v, nil
}

func (v *visitor) close() error {
	var errs []error
	for _, conn := range v.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// post says something, once, and returns the number of the message. Whatever becomes of the nodes, it repeats the
// call under the same request id until there is an answer.
func (v *visitor) post(ctx context.Context, text string) (number int64, err error) {
	ctx = state.WithRequestID(ctx, rand.Text())
	err = v.untilAnswered(ctx, func(ctx context.Context, room chatpb.RoomClient) error {
		ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		reply, err := room.Post(ctx, &chatpb.PostRequest{From: v.name, Text: text})
		number = reply.GetNumber()
		return err
	})
	return number, err
}

// subscribe calls show with each message of the room, once and in order: those that the room has, and those to come.
// It returns when ctx ends, or with an error that repeating the call would not change.
func (v *visitor) subscribe(ctx context.Context, show func(m *chatpb.Message)) error {
	after := int64(0)
	return v.untilAnswered(ctx, func(ctx context.Context, room chatpb.RoomClient) error {
		stream, err := room.Subscribe(ctx, &chatpb.SubscribeRequest{After: after})
		if err != nil {
			return err
		}
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return status.Error(codes.Unavailable, "the node has ended the subscription")
			}
			if err != nil {
				return err
			}
			if after != 0 && m.GetNumber() != after+1 { // it was away for longer than the room keeps messages
				show(&chatpb.Message{From: "chat", Text: fmt.Sprintf("%d messages are missing", m.GetNumber()-after-1)})
			}
			show(m)
			after = m.GetNumber()
		}
	})
}

// untilAnswered calls the node that answered last, and then the others in turn, until one has an answer.
func (v *visitor) untilAnswered(ctx context.Context, call func(context.Context, chatpb.RoomClient) error) error {
	calling := metadata.AppendToOutgoingContext(ctx, objects.BinaryKeyHeader, v.room)
	again := time.NewTimer(pause)
	defer again.Stop()
	for failures := 1; ; failures++ {
		now := v.now.Load()
		err := call(calling, chatpb.NewRoomClient(v.conns[now%int64(len(v.conns))]))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch status.Code(err) {
		case codes.Unavailable, codes.Unknown, codes.Aborted, codes.DeadlineExceeded:
		default:
			return err
		}
		if failures == len(v.conns) {
			v.log.Warn("no answer; asking the nodes again and again", "error", err)
		}
		v.now.CompareAndSwap(now, now+1)
		again.Reset(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
