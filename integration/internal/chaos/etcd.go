//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/wait"
)

const (
	etcdPatience = 30 * time.Second
	pollInterval = 20 * time.Millisecond
)

// member is one etcd process, which keeps its data when it is killed.
type member struct {
	endpoint, peer string
	command        func() (*exec.Cmd, error)
	ownRelay       *fault.Relay  // in front of it, for the run's own client
	id             atomic.Uint64 // etcd's id of it, once it has joined

	mu      sync.Mutex
	process *fault.Process
	in      io.WriteCloser
}

func (m *member) start() error {
	cmd, err := m.command()
	if err != nil {
		return err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	p, err := fault.StartProcess(cmd)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.process, m.in = p, in
	m.mu.Unlock()
	return nil
}

func (m *member) currentProcess() *fault.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// sendInstruction sends the process an instruction about another member.
func (m *member) sendInstruction(what string, other *member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := fmt.Fprintln(m.in, what+other.peer)
	return err
}

// moveLead transfers etcd's leadership from this member, which must have it, to another one.
func (m *member) moveLead(ctx context.Context, to *member) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	own, err := clientv3.New(clientv3.Config{Endpoints: []string{m.endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }() // the error reports only the cancelled context
	_, err = own.MoveLeader(ctx, to.id.Load())
	return err
}

func (m *member) close() error {
	if m.ownRelay != nil {
		m.ownRelay.Close()
	}
	if p := m.currentProcess(); p != nil {
		return p.Close()
	}
	return nil
}

// awaitEtcdAnswers waits until etcd answers a linearizable read, which requires a majority and a leader.
func (w *world) awaitEtcdAnswers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		_, err := w.client.Get(attempt, "health")
		cancel()
		if err == nil {
			return nil
		}
		if !wait.For(ctx, pollInterval) {
			return fmt.Errorf("etcd does not answer: %w", err)
		}
	}
}

// awaitMembersJoined waits until every running member answers by itself, so that the cluster has recovered from one
// fault before the next.
func (w *world) awaitMembersJoined(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	for _, m := range w.members {
		for {
			attempt, cancel := context.WithTimeout(ctx, time.Second)
			st, err := w.client.Status(attempt, m.endpoint)
			cancel()
			if err == nil && st.Leader != 0 && len(st.Errors) == 0 {
				m.id.Store(st.Header.MemberId)
				break
			}
			if !wait.For(ctx, pollInterval) {
				return fmt.Errorf("etcd member %s has not come back: %w", m.endpoint, errors.Join(err, ctx.Err()))
			}
		}
	}
	return nil
}

// etcdLeader returns the member that leads etcd, or nil if none is known.
func (w *world) etcdLeader(ctx context.Context) *member {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, m := range w.members {
		var st *clientv3.StatusResponse
		st, err := w.client.Status(ctx, m.endpoint)
		if err == nil && st.Leader == st.Header.MemberId {
			return m
		}
	}
	return nil
}
