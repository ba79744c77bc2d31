package elector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// A write with a lost answer wins nothing. The record is read, and a term begins with the next write that is
// answered.
func TestTheAnswerToTheFirstWriteIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store, func(c *candidate, _ *Config) { c.loseAnswer(doCreate) })
		pass(time.Second)
		require.False(t, a.IsLeader())
		pass(4 * time.Second)
		require.True(t, a.IsLeader())
		require.EqualValues(t, 2, a.Token(), "the number of the one that nobody led is not used again")
		require.Equal(t, []string{"starts"}, a.happened())
	})
}

func TestTheAnswerToARenewalIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		a.loseAnswer(doUpdate)
		pass(time.Minute)
		require.EqualValues(t, 1, a.Token(), "the term goes on")
		require.Equal(t, []string{"starts"}, a.happened())
	})
}

// A delayed renewal changes nothing if other writes came before it, and releases nothing if it comes after the
// end of the term.
func TestALateRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		late := a.hold(doUpdate)
		pass(10 * time.Second)
		require.EqualValues(t, 1, a.Token())
		_, err := late.carryOut()
		require.ErrorIs(t, err, ErrConflict)

		late = a.hold(doUpdate)
		late.wait()
		a.cutOff(true)
		pass(12 * time.Second)
		require.False(t, a.IsLeader())
		_, err = late.carryOut()
		require.NoError(t, err)
		pass(time.Second)
		require.False(t, a.IsLeader(), "nothing was answered")
		b := stand(t, "b", store)
		pass(9 * time.Second)
		require.False(t, b.IsLeader(), "who sees a record waits, however old it is")
		pass(2 * time.Second)
		require.True(t, b.IsLeader())
	})
}

// The deadline counts from when a renewal was sent.
func TestAnAnswerThatTakesLong(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		slow := func(c *candidate, cfg *Config) {
			cfg.RetryPeriod = 5 * time.Second // a request may take that long
			c.delay(doCreate, 4*time.Second)
		}
		began := time.Now()
		a := stand(t, "a", store, slow)
		pass(4*time.Second + time.Millisecond)
		require.True(t, a.IsLeader())
		a.cutOff(true)
		pass(time.Until(began.Add(9899 * time.Millisecond)))
		require.True(t, a.IsLeader())
		pass(2 * time.Millisecond)
		require.False(t, a.IsLeader())
	})
}

// A record counts as seen from when it was received, not from when it was requested, because it may have been
// written between.
func TestAReadThatTakesLong(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		b := stand(t, "b", store, func(c *candidate, cfg *Config) {
			cfg.RetryPeriod = 5 * time.Second // a request may take that long
			c.slow(doGet, 4*time.Second)
		})
		pass(4 * time.Second)
		a.crash()
		pass(9900 * time.Millisecond)
		require.False(t, b.IsLeader())
		pass(200 * time.Millisecond)
		require.True(t, b.IsLeader())
	})
}

// A candidate that never requested the lease has nothing to release when it is stopped.
func TestStoppedBeforeItAsks(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store, func(c *candidate, _ *Config) { c.cutOff(true) })
		pass(time.Minute)
		began := time.Now()
		a.stop()
		require.NoError(t, <-a.done)
		require.Zero(t, time.Since(began))
	})
}

// An answer that comes after the lease has expired begins no term.
func TestAnAnswerThatComesTooLate(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store, func(c *candidate, _ *Config) { c.delay(doCreate, 9900*time.Millisecond) })
		pass(9900*time.Millisecond - 1)
		require.False(t, a.IsLeader())
		pass(1)
		synctest.Wait()
		require.EqualValues(t, 2, a.Token(), "by the next write")
		require.Equal(t, []string{"starts"}, a.happened())

		a.delay(doUpdate, 12*time.Second)
		pass(15 * time.Second)
		require.EqualValues(t, 3, a.Token())
		require.Equal(t, []string{"ends: " + ErrExpired.Error(), "stopped", "starts"}, a.happened())
	})
}

func TestTheAnswerToTheReleaseIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		pass(time.Second)
		a.loseAnswer(doUpdate)
		a.stop()
		require.NoError(t, <-a.done, "it was read back")
		lease, err := store.GetLease(t.Context())
		require.NoError(t, err)
		require.Empty(t, lease.HolderIdentity)
	})
}

// A renewal in flight when the candidate was stopped overtakes the release.
func TestARenewalOvertakesTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		late := a.hold(doUpdate)
		pass(2500 * time.Millisecond)
		blocked := a.hold(doGet) // the read after the failed release
		a.stop()
		synctest.Wait()
		_, err := late.carryOut()
		require.NoError(t, err)
		_, err = blocked.carryOut()
		require.NoError(t, err)
		require.NoError(t, <-a.done)
		lease, err := store.GetLease(t.Context())
		require.NoError(t, err)
		require.Empty(t, lease.HolderIdentity)
	})
}

// What was read is released at once, even if the answer to the renewal before it was not awaited.
func TestStoppedWhileItRenews(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		a.loseAnswer(doUpdate)
		pass(2500 * time.Millisecond)
		began := time.Now()
		a.stop()
		require.NoError(t, <-a.done)
		require.Zero(t, time.Since(began))
		lease, err := store.GetLease(t.Context())
		require.NoError(t, err)
		require.Empty(t, lease.HolderIdentity)
	})
}

// A candidate that is stopped while it requests the lease does not leave a lease without a living holder.
func TestStoppedWhileItAsks(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store, func(c *candidate, _ *Config) { c.loseAnswer(doCreate) })
		pass(time.Second)
		a.stop()
		require.NoError(t, <-a.done)
		require.Empty(t, a.happened())
		lease, err := store.GetLease(t.Context())
		require.NoError(t, err)
		require.Empty(t, lease.HolderIdentity)
	})
}

// An unanswered request does not take the lease after its sender has left, either.
func TestARequestThatComesAfterItsSenderHasLeft(t *testing.T) {
	for _, do := range []action{doCreate, doUpdate} {
		bubble(t, func(t *testing.T, store *Memory) {
			if do == doUpdate { // the record of a candidate that has left
				before := stand(t, "before", store)
				pass(time.Second)
				before.stop()
				require.NoError(t, <-before.done)
			}
			var late *held
			a := stand(t, "a", store, func(c *candidate, _ *Config) { late = c.hold(do) })
			late.wait()
			a.stop()
			require.NoError(t, <-a.done)
			_, err := late.carryOut()
			require.Error(t, err)
			lease, err := store.GetLease(t.Context())
			require.NoError(t, err)
			require.Empty(t, lease.HolderIdentity)
		})
	}
}

func TestAStoreThatIsAwayAtTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		pass(time.Second)
		began := time.Now()
		a.crash()
		err := <-a.done
		require.ErrorIs(t, err, ErrNotReleased)
		require.ErrorIs(t, err, errAway)
		require.NotContains(t, err.Error(), "\n")
		require.LessOrEqual(t, time.Since(began), 10*time.Second, "then it has run out anyway")
		require.Equal(t, []string{"starts", "ends: context canceled", "stopped"}, a.happened())
	})
}

// A suspended machine shows on its wall clock only, and setting the wall clock back does not extend a lease.
func TestClocksThatDisagree(t *testing.T) {
	for name, c := range map[string]struct{ mono, wall, valid time.Duration }{
		"together":                    {0, 0, 9900 * time.Millisecond},
		"the monotonic stands still":  {-5 * time.Second, 0, 9900 * time.Millisecond},
		"the wall clock was set back": {0, -time.Hour, 9900 * time.Millisecond},
		"the wall clock was put on":   {0, 4 * time.Second, 5900 * time.Millisecond},
		"it was put on by much":       {0, time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *Memory) {
				e, err := New(Config{LeaseStore: store, CandidateID: "a", LeaseDuration: 10 * time.Second})
				require.NoError(t, err)
				sent := deadline.Now()
				e.now = func() deadline.Instant {
					at := deadline.Now()
					if at.Mono > sent.Mono {
						at = deadline.Instant{Mono: at.Mono + int64(c.mono), Wall: at.Wall + int64(c.wall)}
					}
					return at
				}
				began := time.Now()
				term := e.startTerm(t.Context(), 1, deadline.NewClaim(sent, 10*time.Second))
				require.True(t, e.IsLeader())
				if c.valid > 0 {
					pass(c.valid - 1)
					require.True(t, e.IsLeader())
				}
				pass(1)
				require.False(t, e.IsLeader())
				<-term.ctx.Done()
				require.LessOrEqual(t, time.Since(began), max(c.valid, time.Second), "timers see it, too")
				require.ErrorIs(t, context.Cause(term.ctx), ErrExpired)
				<-term.done
			})
		})
	}
}

// A slow callback delays no renewal and receives all changes in order.
func TestACallbackThatTakesLong(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store, func(c *candidate, cfg *Config) {
			tell := cfg.OnNewLeader
			cfg.OnNewLeader = func(who string) { pass(time.Hour); tell(who) }
		})
		pass(30 * time.Minute)
		require.EqualValues(t, 1, a.Token())
		require.Empty(t, a.leaders())
		a.stop()
		require.NoError(t, <-a.done)
		require.Equal(t, []string{"a", ""}, a.leaders())
	})
}

// Many candidates stand, and each leader is killed. There is one leader at a time, and the numbers grow.
func TestOneAfterTheOther(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		all := map[*candidate]bool{}
		for range 8 {
			all[stand(t, "name", store)] = true
		}
		last := int64(0)
		for len(all) > 0 {
			pass(13 * time.Second)
			var leader *candidate
			for c := range all {
				if c.IsLeader() {
					require.Nil(t, leader)
					leader = c
				}
			}
			require.NotNil(t, leader)
			require.Greater(t, leader.Token(), last)
			last = leader.Token()
			leader.crash()
			delete(all, leader)
		}
	})
}
