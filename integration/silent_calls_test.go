//go:build linux

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/internal/wait"
)

// echo is an object that answers with the node that it is on.
type echo struct {
	probepb.UnimplementedProbeServer
	object *objects.Object
	node   string
}

// Add implements probepb.ProbeServer.
func (e *echo) Add(_ context.Context, _ *probepb.AddRequest) (*probepb.AddResponse, error) {
	return &probepb.AddResponse{Epoch: e.object.Epoch(), Node: e.node}, nil
}

// answerChange records that another node than before answered the calls of an object.
type answerChange struct {
	Caller string          `json:"caller"`
	Shard  int             `json:"shard"`
	Node   string          `json:"node"`
	Epoch  int64           `json:"epoch"`
	Called history.Instant `json:"called"` // the call that was answered
	At     history.Instant `json:"at"`
}

// callLog records which node answers.
type callLog struct {
	mu   sync.Mutex
	file *os.File
	err  error
}

func newCallLog(path string) (*callLog, error) {
	file, err := os.Create(path)
	return &callLog{file: file}, err
}

func (l *callLog) write(c answerChange) {
	text, err := json.Marshal(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		if l.err = err; err == nil {
			_, l.err = l.file.Write(append(text, '\n'))
		}
	}
}

func (l *callLog) close() error { return errors.Join(l.err, l.file.Close()) }

// callShard calls an object in a shard again and again. Each call waits for its answer, however long that takes.
func (l *callLog) callShard(ctx context.Context, n *cluster.Cluster, caller string, shard int) {
	key := ""
	for i := 0; key == ""; i++ {
		if k := fmt.Sprint("object-", i); n.Shards().Shard(k) == shard {
			key = k
		}
	}
	probe := probepb.NewProbeClient(n.Objects().At(key))
	var last answerChange
	for ctx.Err() == nil {
		one := answerChange{Caller: caller, Shard: shard, Called: history.Now()}
		call, cancel := context.WithTimeout(ctx, time.Minute)
		answer, err := probe.Add(call, &probepb.AddRequest{Amount: 1})
		cancel()
		one.At = history.Now()
		if one.Node, one.Epoch = answer.GetNode(), answer.GetEpoch(); err == nil && (one.Node != last.Node ||
			one.Epoch != last.Epoch) {
			l.write(one)
			last = one
		}
		wait.For(ctx, silentCalls)
	}
}
