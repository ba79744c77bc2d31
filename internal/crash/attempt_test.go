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

// A request is sent again while it has no answer, at growing intervals.
func TestRequestAboutSilenceIsSentAgain(t *testing.T) {
	inSilentCase(t, func(c *silentCase) {
		sent := c.loseExcept(5)
		require.NoError(t, c.withdraw(t))
		require.Equal(t, []time.Duration{0, leastGap, 3 * leastGap, 3*leastGap + maxGap, 3*leastGap + 2*maxGap}, sent())
	})
}

// A request that the judge does not want any more is not sent again. The next one follows soon.
func TestUnwantedRequestAboutSilence(t *testing.T) {
	inSilentCase(t, func(c *silentCase) {
		sent := c.loseExcept(0)
		time.AfterFunc(4*leastGap, func() {
			c.silence.mu.Lock()
			defer c.silence.mu.Unlock()
			c.silence.judge = c.silence.judge.OnWithdrawn()
		})
		began := time.Now()
		require.ErrorIs(t, c.withdraw(t), hedge.ErrUnwanted)
		require.Len(t, sent(), 3)
		require.Equal(t, 3*leastGap+maxGap+attemptPause, time.Since(began))
	})
}
