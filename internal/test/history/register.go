package history

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
)

// attemptTimeout bounds one operation of Work.
const attemptTimeout = 2 * time.Second

// Fenced is a term whose transactions etcd refuses when it is over: a
// [election.Term], or what a test puts in its place.
type Fenced interface {
	Token() int64
	Txn(ctx context.Context) clientv3.Txn
}

// Register is one key that the leader of the moment writes, or a shard's owner, each time
// something that was never written before, and that anybody reads. All methods are safe
// for concurrent use.
type Register struct {
	rec     *Recorder
	node    string
	client  *clientv3.Client
	key     string
	subject Subject
}

// Register is the register at key as a node uses it: reads go through client, writes
// through the terms given to Write. The key must be fresh, and nobody else may write
// it: whatever else is found there is reported.
func (r *Recorder) Register(node string, client *clientv3.Client, key string) *Register {
	return &Register{rec: r, node: node, client: client, key: key}
}

// ShardRegister is a register that a shard's owner writes, under its epoch. An epoch is
// what the store compares: Fenced has to let etcd refuse a write whose epoch is smaller
// than one that the register has seen, and every owner has to write before it serves.
// Only then does a write that was accepted after the next owner had begun to serve, which
// is reported, break a promise.
func (r *Recorder) ShardRegister(node string, client *clientv3.Client, key string, shard int) *Register {
	return &Register{rec: r, node: node, client: client, key: key, subject: Shard(shard)}
}

// Write makes one guarded write and records it, before it is sent and when it is
// answered. It blocks until etcd answered or ctx ends. The outcome is refused only if
// the error matches election.ErrTermOver; any other error leaves it open.
func (g *Register) Write(ctx context.Context, term Fenced) Op {
	op := g.op()
	op.Write, op.Token = true, term.Token()
	op.Value = fmt.Sprintf("%s#%d", op.Process, op.ID)
	g.rec.write(line{Op: &op})
	resp, err := term.Txn(ctx).Then(clientv3.OpPut(g.key, encode(op.Token, op.Value))).Commit()
	op.Return = Now()
	switch {
	case err == nil:
		op.Outcome, op.Revision = OutcomeAccepted, resp.Header.Revision
	case errors.Is(err, election.ErrTermOver):
		op.Outcome, op.Error = OutcomeRefused, err.Error()
	default:
		op.Error = err.Error()
	}
	g.rec.write(line{Op: &op})
	return op
}

// Read makes one linearizable read and records it when it is answered; one that
// fails says nothing. It blocks until etcd answered or ctx ends.
func (g *Register) Read(ctx context.Context) Op {
	op := g.op()
	resp, err := g.client.Get(ctx, g.key)
	op.Return = Now()
	if err != nil {
		op.Error = err.Error()
		return op
	}
	op.Outcome = OutcomeAccepted
	if len(resp.Kvs) == 1 {
		op.Token, op.Value = decode(resp.Kvs[0].Value)
		op.Revision = resp.Kvs[0].ModRevision
	}
	g.rec.write(line{Op: &op})
	return op
}

// Work reads, and writes while term says that this node leads, once in every until
// ctx ends. It goes on with a term that is over until etcd or the term refuses it: that is
// what the fence is for. An operation without an answer is given up after 2 s.
func (g *Register) Work(ctx context.Context, every time.Duration, term func() Fenced) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last Fenced
	for {
		if t := term(); t != nil {
			last = t
		}
		if last != nil {
			if op := g.bounded(ctx, func(ctx context.Context) Op { return g.Write(ctx, last) }); op.Outcome == OutcomeRefused {
				last = nil
			}
		}
		g.bounded(ctx, g.Read)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (g *Register) bounded(ctx context.Context, attempt func(context.Context) Op) Op {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return attempt(ctx)
}

func (g *Register) op() Op {
	return Op{Process: g.rec.process, ID: g.rec.ids.Add(1), Node: g.node, Key: g.key, Subject: g.subject, Call: Now(),
		Outcome: OutcomeUnknown}
}

// encode puts the token in front, so that etcd's own history of the key shows it.
func encode(token int64, value string) string { return fmt.Sprintf("%d %s", token, value) }

// decode is the opposite; what it cannot take apart is a value with token 0, which
// nobody wrote.
func decode(stored []byte) (token int64, value string) {
	first, rest, ok := strings.Cut(string(stored), " ")
	token, err := strconv.ParseInt(first, 10, 64)
	if !ok || err != nil {
		return 0, string(stored)
	}
	return token, rest
}
