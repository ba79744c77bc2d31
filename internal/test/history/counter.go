package history

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

var errFenced = errors.New("the guard does not hold")

// Counter is a register that counts: who holds a lock reads it and writes one more, on no
// condition but that the lock's guard holds. Reads go through client. The key must be fresh,
// and nobody else may write it.
func (r *Recorder) Counter(node string, client *clientv3.Client, key, lock string) *Register {
	return &Register{rec: r, node: node, client: client, key: key, subject: Lock(lock)}
}

// Increment reads the counter and writes one more, in two requests, of which the second is
// made on the condition guard alone; the token is that of the lock. It records both, and blocks until
// etcd answered or ctx ends. The outcome is refused only if the guard did not hold; that of an
// increment whose read failed is unknown, and it is not recorded, for nothing was sent.
func (g *Register) Increment(ctx context.Context, token int64, guard []clientv3.Cmp) Op {
	base := g.Read(ctx)
	op := g.op()
	op.Write, op.Counts, op.Token = true, true, token
	if base.Outcome != OutcomeAccepted {
		op.Error = base.Error
		return op
	}
	op.Base = base.Value
	op.Value = fmt.Sprintf("%s#%d=%d", op.Process, op.ID, counted(base.Value)+1)
	g.rec.write(line{Op: &op})
	resp, err := g.client.Txn(ctx).If(guard...).Then(clientv3.OpPut(g.key, encode(op.Token, op.Value))).Commit()
	op.Return = Now()
	switch {
	case err != nil:
		op.Error = err.Error()
	case resp.Succeeded:
		op.Outcome, op.Revision = OutcomeAccepted, resp.Header.Revision
	default:
		op.Outcome, op.Error = OutcomeRefused, errFenced.Error()
	}
	g.rec.write(line{Op: &op})
	return op
}

// counted is how far a counter has come whose value that is.
func counted(value string) int64 {
	_, number, _ := strings.Cut(value, "=")
	n, _ := strconv.ParseInt(number, 10, 64) // 0: never written
	return n
}
