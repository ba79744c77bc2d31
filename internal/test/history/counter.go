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

// Counter returns a register that counts. The holder of a lock reads it and writes the next number, on the
// single condition that the lock's guard holds. Reads go through client. The key must be fresh, and no other
// program may write it.
func (r *Recorder) Counter(node string, client *clientv3.Client, key, lock string) *Register {
	return &Register{rec: r, node: node, client: client, key: key, subject: Lock(lock)}
}

// Increment reads the counter and writes the next number, in two requests. guard is the only condition of the
// second; token is the lock's token. Increment records both requests and blocks until etcd has answered or ctx
// ends. The outcome is refused only if the guard did not hold. If the read failed, the outcome is unknown and
// no write is recorded, because none was sent.
func (g *Register) Increment(ctx context.Context, token int64, guard []clientv3.Cmp) Op {
	base := g.Read(ctx)
	op := g.newOp()
	op.Write, op.Counts, op.Token = true, true, token
	if base.Outcome != OutcomeAccepted {
		op.Error = base.Error
		return op
	}
	op.Base = base.Value
	op.Value = fmt.Sprintf("%s#%d=%d", op.Process, op.ID, counterValue(base.Value)+1)
	g.rec.writeLines(recordLine{Op: &op})
	resp, err := g.client.Txn(ctx).If(guard...).Then(clientv3.OpPut(g.key, encodeValue(op.Token, op.Value))).Commit()
	op.Return = Now()
	switch {
	case err != nil:
		op.Error = err.Error()
	case resp.Succeeded:
		op.Outcome, op.Revision = OutcomeAccepted, resp.Header.Revision
	default:
		op.Outcome, op.Error = OutcomeRefused, errFenced.Error()
	}
	g.rec.writeLines(recordLine{Op: &op})
	return op
}

// counterValue returns the number in a counter's value.
func counterValue(value string) int64 {
	_, number, _ := strings.Cut(value, "=")
	n, _ := strconv.ParseInt(number, 10, 64) // 0: never written
	return n
}
