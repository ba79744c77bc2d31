package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/examples/bank/bankpb"
)

// attemptTimeout limits how long a call waits for its answer before it is repeated. pause separates the
// attempts.
const attemptTimeout, pause = 5 * time.Second, 20 * time.Millisecond

// client calls the bank through any of its nodes. It is not a node itself.
type client struct {
	conns   []*grpc.ClientConn
	current atomic.Int64 // index of the connection that answered last, modulo their number
	log     *slog.Logger
}

// dial returns a client of the given nodes, a comma-separated list of addresses. The caller must call close.
func dial(nodes string, log *slog.Logger) (*client, error) {
	b := &client{log: log}
	for address := range strings.SplitSeq(nodes, ",") {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, errors.Join(err, b.close())
		}
		b.conns = append(b.conns, conn)
	}
	return b, nil
}

func (b *client) close() (err error) {
	for _, conn := range b.conns {
		err = errors.Join(err, conn.Close())
	}
	return err
}

// open opens an account. It takes effect once, however often the call is repeated.
func (b *client) open(ctx context.Context, name string, balance int64) (outcome bankpb.Outcome, err error) {
	ctx = state.WithRequestID(ctx, rand.Text())
	err = b.call(ctx, name, func(ctx context.Context, conn *grpc.ClientConn) error {
		receipt, err := bankpb.NewAccountClient(conn).Open(ctx, &bankpb.OpenRequest{Balance: balance})
		outcome = receipt.GetOutcome()
		return err
	})
	return outcome, err
}

// balance returns the balance of an account, or an error with code NOT_FOUND if there is no such account.
func (b *client) balance(ctx context.Context, name string) (balance int64, err error) {
	err = b.call(ctx, name, func(ctx context.Context, conn *grpc.ClientConn) error {
		reply, err := bankpb.NewAccountClient(conn).Balance(ctx, &bankpb.BalanceRequest{})
		balance = reply.GetBalance()
		return err
	})
	return balance, err
}

// transfer moves money, once for each id.
func (b *client) transfer(ctx context.Context, id string, req *bankpb.RunRequest) (outcome bankpb.Outcome, err error) {
	err = b.call(ctx, id, func(ctx context.Context, conn *grpc.ClientConn) error {
		reply, err := bankpb.NewTransferClient(conn).Run(ctx, req)
		outcome = reply.GetOutcome()
		return err
	})
	return outcome, err
}

// call calls the objects with the given key. It tries one node after the other until one of them answers or ctx
// ends.
func (b *client) call(ctx context.Context, key string, do func(context.Context, *grpc.ClientConn) error) error {
	ctx = metadata.AppendToOutgoingContext(ctx, objects.BinaryKeyHeader, key)
	again := time.NewTimer(pause)
	defer again.Stop()
	for failures := 1; ; failures++ {
		now := b.current.Load()
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := do(attempt, b.conns[now%int64(len(b.conns))])
		cancel()
		if ctx.Err() != nil && err != nil {
			return ctx.Err()
		}
		switch status.Code(err) {
		case codes.Unavailable, codes.Unknown, codes.Aborted, codes.DeadlineExceeded:
		default:
			return err
		}
		if failures == len(b.conns) {
			b.log.Warn("no answer; asking the nodes again and again", "error", err)
		}
		b.current.CompareAndSwap(now, now+1)
		again.Reset(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
