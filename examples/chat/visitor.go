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
	// attemptTimeout limits how long a post waits for its answer before it is repeated.
	attemptTimeout = 5 * time.Second
	// pause separates the attempts at one node and the next.
	pause = 50 * time.Millisecond
	// probeAfter is the idle time after which a connection is probed.
	probeAfter = 5 * time.Second
)

// visitor is a client in one room, through any of the nodes. It is not a node: a program in any language can do
// the same.
type visitor struct {
	room, name string
	conns      []*grpc.ClientConn
	current    atomic.Int64 // index of the connection that answered last, modulo their number
	log        *slog.Logger
}

// newVisitor returns a visitor that uses the given nodes, a comma-separated list of addresses. The caller must call
// close.
func newVisitor(nodes, room, name string, log *slog.Logger) (*visitor, error) {
	v := &visitor{room: room, name: name, log: log}
	for address := range strings.SplitSeq(nodes, ",") {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: probeAfter, Timeout: probeAfter}))
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

// post posts a message and returns its number. It repeats the call under the same request id until it gets an
// answer, so the message is stored once, even if nodes fail.
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

// subscribe calls show with each message of the room, once and in order: first the stored ones, then new ones
// as they come. It returns when ctx ends, or with an error that repeating the call would not change.
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
			if after != 0 && m.GetNumber() != after+1 { // away for longer than the room keeps messages
				show(&chatpb.Message{From: "chat", Text: fmt.Sprintf("%d messages are missing", m.GetNumber()-after-1)})
			}
			show(m)
			after = m.GetNumber()
		}
	})
}

// untilAnswered calls the node that answered last, then the others in turn, until one of them answers or ctx
// ends.
func (v *visitor) untilAnswered(ctx context.Context, call func(context.Context, chatpb.RoomClient) error) error {
	calling := metadata.AppendToOutgoingContext(ctx, objects.BinaryKeyHeader, v.room)
	again := time.NewTimer(pause)
	defer again.Stop()
	for failures := 1; ; failures++ {
		now := v.current.Load()
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
		v.current.CompareAndSwap(now, now+1)
		again.Reset(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
