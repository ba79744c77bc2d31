package history

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
)

// attemptTimeout limits one operation of Work.
const attemptTimeout = 2 * time.Second

// FencedTerm is a term with transactions that etcd refuses once the term is over: an [leaderelection.Term], or a test's
// substitute.
type FencedTerm interface {
	Token() int64
	Txn(ctx context.Context) clientv3.Txn
}

// Register is one key that the present leader, or a shard's owner, writes with a new value each time, and that
// all nodes read. All methods are safe for concurrent use.
type Register struct {
	rec     *Recorder
	node    string
	client  *clientv3.Client
	key     string
	subject Subject
}

// Register returns the register at key for one node. Reads go through client, writes through the terms passed
// to Write. The key must be fresh, and no other program may write it: any other value found there is reported.
func (r *Recorder) Register(node string, client *clientv3.Client, key string) *Register {
	return &Register{rec: r, node: node, client: client, key: key}
}

// ShardRegister returns a register that a shard's owner writes under its epoch. The FencedTerm passed to Write must
// let etcd refuse a write under an epoch smaller than one that the register has seen, and every owner must
// write before it serves. Only under these conditions does a write break a promise if it is accepted after the
// next owner has begun to serve; such writes are reported.
func (r *Recorder) ShardRegister(node string, client *clientv3.Client, key string, shard int) *Register {
	return &Register{rec: r, node: node, client: client, key: key, subject: Shard(shard)}
}

// Write makes one guarded write and records it, before it is sent and when it is answered. It blocks until etcd
// has answered or ctx ends. The outcome is refused only if the error matches leaderelection.ErrTermOver; after any
// other error it is unknown.
func (g *Register) Write(ctx context.Context, term FencedTerm) Op {
	op := g.newOp()
	op.Write, op.Token = true, term.Token()
	op.Value = fmt.Sprintf("%s#%d", op.Process, op.ID)
	g.rec.writeLines(recordLine{Op: &op})
	resp, err := term.Txn(ctx).Then(clientv3.OpPut(g.key, encodeValue(op.Token, op.Value))).Commit()
	op.Return = Now()
	switch {
	case err == nil:
		op.Outcome, op.Revision = OutcomeAccepted, resp.Header.Revision
	case errors.Is(err, leaderelection.ErrTermOver):
		op.Outcome, op.Error = OutcomeRefused, err.Error()
	default:
		op.Error = err.Error()
	}
	g.rec.writeLines(recordLine{Op: &op})
	return op
}

// Read makes one linearizable read and records it when it is answered. A read that fails is not recorded. Read
// blocks until etcd has answered or ctx ends.
func (g *Register) Read(ctx context.Context) Op {
	op := g.newOp()
	resp, err := g.client.Get(ctx, g.key)
	op.Return = Now()
	if err != nil {
		op.Error = err.Error()
		return op
	}
	op.Outcome = OutcomeAccepted
	if len(resp.Kvs) == 1 {
		op.Token, op.Value = decodeValue(resp.Kvs[0].Value)
		op.Revision = resp.Kvs[0].ModRevision
	}
	g.rec.writeLines(recordLine{Op: &op})
	return op
}

// Work reads once in every period until ctx ends, and also writes while term returns a term. It continues with
// a term that is over until etcd or the term refuses a write, in order to test the fence. An operation without
// an answer is abandoned after 2 s.
func (g *Register) Work(ctx context.Context, every time.Duration, term func() FencedTerm) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last FencedTerm
	for {
		if t := term(); t != nil {
			last = t
		}
		if last != nil {
			op := runBounded(ctx, func(ctx context.Context) Op { return g.Write(ctx, last) })
			if op.Outcome == OutcomeRefused {
				last = nil
			}
		}
		runBounded(ctx, g.Read)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func runBounded(ctx context.Context, attempt func(context.Context) Op) Op {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return attempt(ctx)
}

func (g *Register) newOp() Op {
	return Op{Process: g.rec.process, ID: g.rec.ids.Add(1), Node: g.node, Key: g.key, Subject: g.subject, Call: Now(),
		Outcome: OutcomeUnknown}
}

// encodeValue puts the token in front of the value; etcd's own history of the key then shows it.
func encodeValue(token int64, value string) string { return fmt.Sprintf("%d %s", token, value) }

// decodeValue reverses encodeValue. It returns text of another form as a value with token 0, which no recorder writes.
func decodeValue(stored []byte) (token int64, value string) {
	first, rest, ok := strings.Cut(string(stored), " ")
	token, err := strconv.ParseInt(first, 10, 64)
	if !ok || err != nil {
		return 0, string(stored)
	}
	return token, rest
}
