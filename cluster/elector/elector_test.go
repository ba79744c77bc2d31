package elector

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

// bubble runs a test in fake time, with a store that can be watched only through it.
func bubble(t *testing.T, f func(t *testing.T, store *Memory)) {
	synctest.Test(t, func(t *testing.T) { f(t, NewMemory()) })
}

func TestATermFromItsBeginToItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		require.True(t, a.IsLeader())
		require.EqualValues(t, 1, a.Token())
		require.Equal(t, "a", a.Leader())
		b := stand(t, "b", store)
		pass(time.Minute)
		require.True(t, a.IsLeader())
		require.False(t, b.IsLeader())
		require.Zero(t, b.Token())
		require.Equal(t, "a", b.Leader())
		require.ErrorIs(t, a.Run(t.Context()), ErrRunning)

		a.stop()
		synctest.Wait()
		require.False(t, a.IsLeader())
		require.NoError(t, <-a.done)
		require.Equal(t, []string{"starts", "ends: context canceled", "stopped"}, a.happened())
		require.Equal(t, []string{"a", ""}, a.leaders())
		pass(2 * time.Second)
		require.True(t, b.IsLeader())
		require.EqualValues(t, 2, b.Token())
		require.Equal(t, "b", b.Leader())
		require.Equal(t, "", a.Leader())
		lease, err := store.GetLease(t.Context())
		require.NoError(t, err)
		require.Equal(t, "b", lease.HolderIdentity)
		require.Equal(t, 10*time.Second, lease.LeaseDuration)
		require.LessOrEqual(t, time.Since(lease.AcquireTime), 2*time.Second)
		require.EqualValues(t, 2, lease.LeaderTransitions)
	})
}

// A store that can be watched hands over at once.
func TestAWatchHandsOverAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		watched := func(_ *candidate, cfg *Config) { cfg.LeaseStore = store }
		a := stand(t, "a", store, watched)
		synctest.Wait()
		b := stand(t, "b", store, watched)
		pass(time.Minute)
		began := time.Now()
		a.stop()
		synctest.Wait()
		require.True(t, b.IsLeader())
		require.Zero(t, time.Since(began))
	})
}

// standLogging returns a candidate for which change was called, and a function that stops it and returns its log.
func standLogging(t *testing.T, store *Memory, change func(*candidate, *Config)) (a *candidate,
	stopped func() string) {
	var logged strings.Builder // read when Run has returned
	a = stand(t, "a", store, func(c *candidate, cfg *Config) {
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &logged, DisableTime: true})
		change(c, cfg)
	})
	return a, func() string {
		a.stop()
		synctest.Wait()
		require.NoError(t, <-a.done)
		return logged.String()
	}
}

// A failure of the store is one line of the log, and is absent while the store works.
func TestTheLogOfAStoreThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a, stopped := standLogging(t, store, func(c *candidate, _ *Config) {
			c.rule(doGet, func(context.Context, func(context.Context) (Lease, error)) (Lease, error) {
				return Lease{}, errors.New("cannot connect:\n\t127.0.0.1: refused\n")
			})
		})
		pass(3 * time.Second)
		require.True(t, a.IsLeader())
		require.Equal(t, `[WARN]  the lease store fails, retrying: candidate=a error="cannot connect: 127.0.0.1: refused"
[INFO]  the lease store works again: candidate=a
[INFO]  this candidate leads: candidate=a token=1
[INFO]  this candidate no longer leads: candidate=a token=1 reason="context canceled"
`, stopped())
	})
}

// A store that takes no writes does not work, though it answers reads: a database that has become a standby.
func TestTheLogOfAStoreThatOnlyReads(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		refused := 0
		a, stopped := standLogging(t, store, func(c *candidate, _ *Config) {
			var refuse func(context.Context, func(context.Context) (Lease, error)) (Lease, error)
			refuse = func(context.Context, func(context.Context) (Lease, error)) (Lease, error) {
				if refused++; refused < 3 {
					c.rule(doCreate, refuse)
				}
				return Lease{}, errors.New("read-only")
			}
			c.rule(doCreate, refuse)
		})
		pass(time.Minute)
		require.True(t, a.IsLeader())
		require.Equal(t, `[WARN]  the lease store fails, retrying: candidate=a error=read-only
[INFO]  the lease store works again: candidate=a
[INFO]  this candidate leads: candidate=a token=1
[INFO]  this candidate no longer leads: candidate=a token=1 reason="context canceled"
`, stopped())
		require.Equal(t, 3, refused)
	})
}

// A candidate learns from the writes of others that the store works again.
func TestTheLogOfAStoreThatOthersWrite(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a, stopped := standLogging(t, store, func(c *candidate, _ *Config) {
			c.rule(doCreate, func(context.Context, func(context.Context) (Lease, error)) (Lease, error) {
				_, err := store.CreateLease(t.Context(), Lease{HolderIdentity: "b", LeaseDuration: time.Hour, LeaderTransitions: 1})
				require.NoError(t, err)
				return Lease{}, errors.New("read-only")
			})
		})
		pass(time.Minute)
		require.False(t, a.IsLeader())
		require.Equal(t, `[WARN]  the lease store fails, retrying: candidate=a error=read-only
[INFO]  the lease store works again: candidate=a
`, stopped())
	})
}

// Kubernetes' elector continues to claim leadership: its IsLeader compares names.
func TestLeaderIsNoLeaderPastItsDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		pass(time.Minute)
		renewed, err := store.GetLease(t.Context())
		require.NoError(t, err)
		a.cutOff(true)
		deadline := renewed.RenewTime.Add(9900 * time.Millisecond)
		pass(time.Until(deadline) - time.Millisecond)
		require.True(t, a.IsLeader())
		require.EqualValues(t, 1, a.Token())
		pass(2 * time.Millisecond)
		require.False(t, a.IsLeader())
		require.Zero(t, a.Token())
		synctest.Wait()
		require.Equal(t, []string{"starts", "ends: " + ErrExpired.Error(), "stopped"}, a.happened())

		a.cutOff(false)
		pass(3 * time.Second)
		require.True(t, a.IsLeader(), "it campaigns again, and need not wait for itself")
		require.EqualValues(t, 2, a.Token(), "that is another term")
		require.Equal(t, []string{"starts"}, a.happened())
		require.Equal(t, []string{"a", "", "a"}, a.leaders())
	})
}

// Other candidates wait for as long as they saw the record unchanged, whatever times the record contains.
func TestAVanishedLeaderIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		b := stand(t, "b", store)
		pass(time.Minute)
		a.crash()
		lease, err := store.GetLease(t.Context())
		require.NoError(t, err)
		lease.RenewTime, lease.AcquireTime = time.Time{}, time.Time{} // a's clock is wrong
		_, err = store.UpdateLease(t.Context(), lease)
		require.NoError(t, err)
		pass(10 * time.Second)
		require.False(t, a.IsLeader())
		require.False(t, b.IsLeader())
		pass(2 * time.Second)
		require.True(t, b.IsLeader())
		require.Equal(t, []string{"a", "", "b"}, b.leaders())
		require.ErrorIs(t, <-a.done, ErrNotReleased)
	})
}

// The holder's duration counts, not that of the waiting candidate.
func TestTheHolderSaysHowLong(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store, func(_ *candidate, cfg *Config) { cfg.LeaseDuration = time.Minute })
		synctest.Wait()
		b := stand(t, "b", store)
		pass(time.Second)
		a.crash()
		pass(58 * time.Second)
		require.False(t, b.IsLeader())
		pass(3 * time.Second)
		require.True(t, b.IsLeader())
	})
}

// Kubernetes' elector releases the lease while its work runs.
func TestWorkIsAwaitedBeforeRelease(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store, lingers)
		synctest.Wait()
		b := stand(t, "b", store)
		pass(time.Second)
		a.stop()
		pass(5 * time.Second)
		require.False(t, a.IsLeader(), "the flag is lowered first")
		require.False(t, b.IsLeader(), "its work goes on")
		require.Equal(t, "a", b.Leader())
		require.NotContains(t, a.happened(), "stopped")
		a.finish()
		require.NoError(t, <-a.done)
		require.Contains(t, a.happened(), "stopped")
		lease, err := store.GetLease(t.Context())
		require.NoError(t, err)
		require.Empty(t, lease.HolderIdentity)
		require.Empty(t, lease.HolderInstance)
		require.EqualValues(t, 1, lease.LeaderTransitions, "the number stays")
		pass(2 * time.Second)
		require.EqualValues(t, 2, b.Token())
	})
}

func TestWorkThatDoesNotReturnIsNotReleased(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store, lingers)
		synctest.Wait()
		b := stand(t, "b", store)
		pass(time.Second)
		a.stop()
		pass(7 * time.Second)
		require.False(t, b.IsLeader())
		pass(5 * time.Second)
		require.True(t, b.IsLeader(), "it ran out")
		require.Empty(t, a.done, "Run waits")
		a.finish()
		require.NoError(t, <-a.done)
		lease, err := store.GetLease(t.Context())
		require.NoError(t, err)
		require.Equal(t, "b", lease.HolderIdentity, "what another holds is not released")
	})
}

// A process begins no further term while callbacks of the last one run.
func TestWorkThatGoesOnHoldsTheNextTermBack(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store, lingers)
		pass(time.Second)
		a.cutOff(true)
		pass(15 * time.Second)
		a.cutOff(false)
		pass(time.Minute)
		require.False(t, a.IsLeader())
		b := stand(t, "b", store)
		pass(13 * time.Second)
		require.True(t, b.IsLeader())
		require.Equal(t, "b", a.Leader(), "it looks on meanwhile")
		a.finish()
		pass(time.Minute)
		require.True(t, b.IsLeader())
	})
}

func TestTheNextTermBeginsWhenWorkHasReturned(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store, lingers)
		pass(time.Second)
		a.cutOff(true)
		pass(15 * time.Second)
		a.cutOff(false)
		pass(5 * time.Second)
		require.False(t, a.IsLeader())
		a.finish()
		synctest.Wait()
		require.EqualValues(t, 2, a.Token())
	})
}

// The duration in the record is no more than the holder's request. A senseless one does not make the lease
// vacant, and a leader that finds it changed writes its own again.
func TestDurationChangedByHands(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		b := stand(t, "b", store)
		for _, d := range []time.Duration{1<<63 - 1, 9 * time.Second, 0, -1} {
			lease, err := store.GetLease(t.Context())
			require.NoError(t, err)
			lease.LeaseDuration = d
			_, err = store.UpdateLease(t.Context(), lease)
			require.NoError(t, err)
			before := b.requests()
			pass(4 * time.Second)
			require.LessOrEqual(t, b.requests(), before+4)
			require.True(t, a.IsLeader())
			require.EqualValues(t, 1, a.Token())
			require.Equal(t, "a", b.Leader())
			lease, err = store.GetLease(t.Context())
			require.NoError(t, err)
			require.Equal(t, 10*time.Second, lease.LeaseDuration)
		}
	})
}

// A candidate that raises the number in the record ends the term with the smaller number.
func TestNumberRaisedByHands(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		pass(time.Second)
		lease, err := store.GetLease(t.Context())
		require.NoError(t, err)
		lease.LeaderTransitions = 7
		_, err = store.UpdateLease(t.Context(), lease)
		require.NoError(t, err)
		pass(3 * time.Second)
		require.Equal(t, []string{"starts", "ends: " + ErrTaken.Error(), "stopped", "starts"}, a.happened())
		require.EqualValues(t, 8, a.Token())
	})
}

func TestWithoutReleaseTheLeaseRunsOut(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store, func(_ *candidate, cfg *Config) { cfg.ReleaseOnCancel = false })
		synctest.Wait()
		b := stand(t, "b", store)
		pass(time.Second)
		a.stop()
		require.NoError(t, <-a.done)
		pass(8 * time.Second)
		require.False(t, b.IsLeader())
		a.run() // again, and without waiting for its own lease
		synctest.Wait()
		require.EqualValues(t, 2, a.Token())
	})
}

// Kubernetes' elector calls the stop callback even if no term had begun.
func TestWhoNeverLedNeverStops(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		b := stand(t, "b", store)
		pass(time.Minute)
		before := b.requests()
		b.stop()
		require.NoError(t, <-b.done)
		require.Empty(t, b.happened())
		require.Equal(t, []string{"a"}, b.leaders())
		require.Equal(t, before, b.requests(), "and has nothing to give back")
		require.True(t, a.IsLeader())
	})
}

func TestATermGoesOnWhenItsFunctionReturns(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store, func(c *candidate, cfg *Config) {
			cfg.OnStartedLeading = func(context.Context) { c.note("starts") }
		})
		pass(time.Minute)
		require.True(t, a.IsLeader())
		require.Equal(t, []string{"starts"}, a.happened())
		a.stop()
		require.NoError(t, <-a.done)
		require.Equal(t, []string{"stopped"}, a.happened())
	})
}

// Two processes have the same name. The one that starts while the other leads does not mistake itself for the
// leader, as Kubernetes' elector does.
func TestTwoProcessesWithOneName(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "name", store)
		synctest.Wait()
		b := stand(t, "name", store)
		pass(time.Minute)
		require.True(t, a.IsLeader())
		require.False(t, b.IsLeader())
		a.crash()
		pass(12 * time.Second)
		require.False(t, a.IsLeader())
		require.EqualValues(t, 2, b.Token(), "the same name, another term")
	})
}

func TestRecordRemovedOrTakenByHands(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		pass(time.Second)
		lease, err := store.GetLease(t.Context())
		require.NoError(t, err)
		lease.HolderIdentity, lease.HolderInstance, lease.LeaderTransitions = "b", "", 41
		_, err = store.UpdateLease(t.Context(), lease)
		require.NoError(t, err)
		pass(3 * time.Second)
		require.False(t, a.IsLeader())
		require.Contains(t, a.happened(), "ends: "+ErrTaken.Error())
		require.Equal(t, "b", a.Leader())
		pass(11 * time.Second)
		require.EqualValues(t, 42, a.Token())

		store.mu.Lock()
		store.lease = Lease{}
		store.mu.Unlock()
		pass(3 * time.Second)
		require.Contains(t, a.happened(), "ends: "+ErrTaken.Error())
		require.EqualValues(t, 43, a.Token(), "what it has seen is not forgotten with the record")
	})
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{LeaseStore: NewMemory(), CandidateID: "a"}
	require.NoError(t, good.Validate())
	for _, change := range []func(*Config){
		func(c *Config) { c.LeaseStore = nil },
		func(c *Config) { c.CandidateID = "" },
		func(c *Config) { c.CandidateID = "\xff" },
		func(c *Config) { c.CandidateID = "a\x00" },
		func(c *Config) { c.CandidateID = strings.Repeat("a", 513) },
		func(c *Config) { c.LeaseDuration = time.Millisecond },
		func(c *Config) { c.LeaseDuration = -time.Second },
		func(c *Config) { c.LeaseDuration = 1<<63 - 1 },
		func(c *Config) { c.RetryPeriod = -time.Second },
		func(c *Config) { c.RetryPeriod = 8 * time.Second },
	} {
		bad := good
		change(&bad)
		_, err := New(bad)
		require.ErrorIs(t, err, ErrBadConfig)
		require.NotContains(t, err.Error(), "\n")
	}
}
