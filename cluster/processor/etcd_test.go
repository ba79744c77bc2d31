package processor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

const checkpoints = "/goverse/work/checkpoints/"

func to(p processor.Position) func(context.Context) (processor.Progress, error) {
	return func(context.Context) (processor.Progress, error) { return processor.Progress{Position: p}, nil }
}

func caught(t *testing.T, h *etcdfault.Held) {
	t.Helper()
	select {
	case <-h.Caught():
	case <-etcdtest.Context(t).Done():
		t.Fatal("no request was caught")
	}
}

// A write that etcd has carried out counts, with or without its answer.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	p := connect(t, etcdtest.Start(t).Endpoint(), 1500*time.Millisecond)
	ctx := etcdtest.Context(t)
	p.faults.LoseAnswer(etcdfault.OpTxn, etcdfault.Putting(checkpoints))
	_, err := p.etcd.Claim(ctx, "it", 3)
	require.Error(t, err, "the processor asks again")
	m, err := p.etcd.Claim(ctx, "it", 3)
	require.NoError(t, err)

	p.faults.LoseAnswer(etcdfault.OpTxn, etcdfault.Putting(checkpoints))
	m, err = p.etcd.Advance(ctx, "it", m, to("1"))
	require.NoError(t, err)
	p.faults.FailNext(etcdfault.OpTxn, errors.New("not carried out"), etcdfault.Putting(checkpoints))
	m, err = p.etcd.Advance(ctx, "it", m, to("2"))
	require.NoError(t, err)
	p.faults.LoseAnswer(etcdfault.OpTxn, etcdfault.Putting(checkpoints))
	p.faults.FailNext(etcdfault.OpGet, errors.New("nor read"), etcdfault.Getting(checkpoints))
	m, err = p.etcd.Advance(ctx, "it", m, to("3"))
	require.NoError(t, err)
	require.EqualValues(t, "3", m.Position)

	// Progress is stored even if the lead has just ended.
	over, cancel := context.WithCancel(ctx)
	m, err = p.etcd.Advance(over, "it", m, func(context.Context) (processor.Progress, error) {
		cancel()
		return processor.Progress{Position: "4"}, context.Canceled
	})
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, "4", m.Position)
	m, err = p.etcd.Claim(ctx, "it", 3)
	require.NoError(t, err)
	require.EqualValues(t, "4", m.Position)
}

// A request that etcd carries out after the checkpoint was claimed changes nothing, whether the claim has
// another token or the same one.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	for name, token := range map[string]int64{"the next leader": 4, "the same leader": 3} {
		a, b := connect(t, server.Endpoint(), 500*time.Millisecond), connect(t, server.Endpoint())
		ctx := etcdtest.Context(t)
		m, err := b.etcd.Claim(ctx, name, 3)
		require.NoError(t, err)
		held := []*etcdfault.Held{a.faults.HoldNext(etcdfault.OpTxn, etcdfault.Putting(checkpoints)),
			a.faults.HoldNext(etcdfault.OpTxn, etcdfault.Putting(checkpoints))} // it may be sent twice
		given := make(chan error, 1)
		go func() {
			_, err := a.etcd.Advance(ctx, name, m, to("late"))
			given <- err
		}()
		caught(t, held[0])
		next, err := b.etcd.Claim(ctx, name, token)
		require.NoError(t, err)
		require.Empty(t, next.Position)
		next, err = b.etcd.Advance(ctx, name, next, to("1"))
		require.NoError(t, err)
		require.Error(t, <-given)
		require.NoError(t, held[0].Release(ctx))
		_ = held[1].Release(ctx) // an error if it was not sent
		_, err = b.etcd.Advance(ctx, name, next, to("2"))
		require.NoError(t, err, "what came late changed nothing")
	}
}
