package crash

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/internal/crash/silence"
	"github.com/goverse/goverse/internal/etcd/hedge"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
)

// loseExcept loses all transactions except the one with that number, from 1. The returned function returns when they
// were sent.
func (c *silentCase) loseExcept(number int) (sent func() []time.Duration) {
	var mu sync.Mutex
	var all []time.Duration
	began := time.Now()
	c.lost = func(request any) bool {
		if _, ok := request.(*pb.TxnRequest); !ok {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, time.Since(began))
		return len(all) != number
	}
	return func() []time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// withdraw sends a withdrawal, which the judge wants.
func (c *silentCase) withdraw(t *testing.T) error {
	t.Helper()
	keys, err := state.NewKeys("/g")
	require.NoError(t, err)
	armed, _ := silence.Judge{}.OnBeat(c.silence.now(), beatOf(1))
	c.silence.mu.Lock()
	c.silence.judge = removing(armed, c.silence.now()).OnGiveUp()
	c.silence.mu.Unlock()
	_, err = c.silence.attempt(c.session, silence.Withdrawing,
		txn.WithdrawSilenceAccusation(keys, &state.Member{Address: "a:1"}, c.own))
	return err
}

// A request is sent again while it has no answer.
func TestRequestAboutSilenceIsSentAgain(t *testing.T) {
	inSilentCase(t, func(c *silentCase) {
		sent := c.loseExcept(5)
		require.NoError(t, c.withdraw(t))
		require.Equal(t, []time.Duration{0, leastGap, leastGap + maxGap, leastGap + 2*maxGap, leastGap + 3*maxGap}, sent())
	})
}

// A request that the judge does not want any more is not sent again. The next one follows soon.
func TestUnwantedRequestAboutSilence(t *testing.T) {
	inSilentCase(t, func(c *silentCase) {
		sent := c.loseExcept(0)
		time.AfterFunc(3*leastGap, func() {
			c.silence.mu.Lock()
			defer c.silence.mu.Unlock()
			c.silence.judge = c.silence.judge.OnWithdrawn()
		})
		began := time.Now()
		require.ErrorIs(t, c.withdraw(t), hedge.ErrUnwanted)
		require.Len(t, sent(), 3)
		require.Equal(t, leastGap+2*maxGap+attemptPause.First, time.Since(began))
	})
}

// A removal whose answer was lost is finished when etcd shows that it was carried out: its lease is revoked.
func TestRemovalWithoutAnAnswerIsFinished(t *testing.T) {
	for _, carriedOut := range []bool{true, false} {
		inSilentCase(t, func(c *silentCase) {
			client := c.d.cfg.Client
			lease, err := client.Grant(c.d.ctx, 60)
			require.NoError(t, err)
			if carriedOut {
				mark := state.AccusationRecord{Incarnation: c.incarnation, Evidence: "silence", Removed: true}
				_, err := client.Put(c.d.ctx, c.d.cfg.Keys.Accusation("a:1", c.own.InstanceID), mark.Encode())
				require.NoError(t, err)
			}
			armed, _ := silence.Judge{}.OnBeat(c.silence.now(), beatOf(1))
			c.silence.judge = removing(armed, c.silence.now()).OnGiveUp()
			c.silence.removing = &state.Member{Address: "a:1", Incarnation: c.incarnation, KeyLease: int64(lease.ID)}
			update := c.silence.withdraw(c.session, c.own)
			require.Equal(t, silence.Over, ptr(update(c.silence.judge)).Phase())
			c.d.wg.Wait()
			left, err := client.TimeToLive(c.d.ctx, lease.ID)
			require.NoError(t, err)
			require.Equal(t, carriedOut, left.TTL <= 0, "the lease of the member is revoked")
			require.Equal(t, carriedOut, c.d.silenceRemovals.Load() == 1)
		})
	}
}

func ptr[T any](v T) *T { return &v }
