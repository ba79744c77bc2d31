package effects_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/leasequeue/effects"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/test/testbed"
)

var errRefused = errors.New("the mail server is away")

// counts returns an effect that counts its runs.
func counts(n *atomic.Int32, value string) func(context.Context, int64) ([]byte, error) {
	return func(context.Context, int64) ([]byte, error) {
		n.Add(1)
		return []byte(value), nil
	}
}

func never(context.Context, int64) ([]byte, error) { panic("it took place already") }

func TestManyTryAndOneRuns(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	var n, ran atomic.Int32
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			r, err := []*process{s.a, s.b}[i%2].Once(s.ctx, "mail 1", counts(&n, "sent"))
			if assert.NoError(t, err) {
				assert.Equal(t, "sent", string(r.Value))
				assert.Equal(t, 1, r.Attempt)
				if r.Ran {
					ran.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, n.Load())
	require.EqualValues(t, 1, ran.Load())
	r, err := s.b.Once(s.ctx, "mail 1", never)
	require.NoError(t, err)
	require.False(t, r.Ran)
	require.Positive(t, r.Token)
	resp, err := s.client.Get(s.ctx, s.keys.Effects().Root(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(t, err)
	for _, kv := range resp.Kvs {
		_, queued := s.keys.Effects().QueueOf(string(kv.Key))
		require.False(t, queued, "%s is left behind", kv.Key)
	}
}

// A nil function leaves nothing behind, and closed effects say so without asking etcd.
func TestRefusedAtOnce(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	_, err := s.a.Once(s.ctx, "mail", nil)
	require.ErrorContains(t, err, `effect "mail": the function is nil`)
	_, err = effects.ReadState(s.ctx, s.client, s.keys, "mail")
	require.ErrorIs(t, err, once.ErrNoMark)
	require.NoError(t, s.a.Effects.Close(s.ctx))
	ended, cancel := context.WithCancel(s.ctx)
	cancel() // no request can be made
	_, err = s.a.Once(ended, "mail", never)
	require.ErrorIs(t, err, once.ErrStopped)
}

func TestFailureIsTriedAgain(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	var first int64
	_, err := s.a.Once(s.ctx, "mail", func(_ context.Context, token int64) ([]byte, error) {
		first = token
		return nil, errRefused
	})
	require.Equal(t, errRefused, err, "as it is")
	var n atomic.Int32
	r, err := s.b.Once(s.ctx, "mail", counts(&n, ""))
	require.NoError(t, err)
	require.True(t, r.Ran)
	require.Equal(t, 2, r.Attempt)
	require.Greater(t, r.Token, first)
	require.Empty(t, r.Value)
}

// cutDown makes a run an effect and ends a's session halfway. end lets the function return, and returns the
// result of a's call.
func (s *testBed) cutDown(name string) (end func() error) {
	s.Helper()
	inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := s.a.Once(s.ctx, name, func(ctx context.Context, _ int64) ([]byte, error) {
			close(inside)
			<-ctx.Done()
			<-goOn
			return []byte("late"), nil
		})
		ended <- err
	}()
	select {
	case <-inside:
	case err := <-ended:
		require.Fail(s, "the effect did not begin", "%v", err)
	}
	s.a.Faults.CutOff()
	return func() error {
		s.a.Faults.Reconnect()
		close(goOn)
		return <-ended
	}
}

func TestCrashInTheMiddleIsUnknown(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	end := s.cutDown("invoice")
	_, err := s.b.Once(s.ctx, "invoice", never)
	unknown, ok := errors.AsType[*once.UnknownError](err)
	require.True(t, ok, "%v", err)
	require.ErrorIs(t, err, once.ErrUnknown)
	require.Equal(t, "a:1", unknown.By)
	require.Equal(t, 1, unknown.Attempt)

	err = end()
	own, ok := errors.AsType[*once.UnknownError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, unknown.Token, own.Token, "it cannot say that it is done any more")
	_, err = s.b.Once(s.ctx, "invoice", never)
	require.ErrorIs(t, err, once.ErrUnknown, "until somebody says what is true")

	require.ErrorIs(t, s.b.Resolve(s.ctx, "invoice", unknown.Token+1, true, nil), once.ErrNotUnknown)
	require.ErrorIs(t, s.b.Resolve(s.ctx, "another", unknown.Token, true, nil), once.ErrNotUnknown)
	require.NoError(t, s.b.Resolve(s.ctx, "invoice", unknown.Token, true, []byte("number 7")))
	require.ErrorIs(t, s.b.Resolve(s.ctx, "invoice", unknown.Token, false, nil), once.ErrNotUnknown)
	r, err := s.a.Once(s.ctx, "invoice", never)
	require.NoError(t, err)
	require.Equal(t, "number 7", string(r.Value))
}

func TestResolvedAsNotTakenPlace(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	end := s.cutDown("invoice")
	_, err := s.b.Once(s.ctx, "invoice", never)
	unknown, ok := errors.AsType[*once.UnknownError](err)
	require.True(t, ok, "%v", err)
	require.NoError(t, s.b.Resolve(s.ctx, "invoice", unknown.Token, false, nil))
	var n atomic.Int32
	r, err := s.b.Once(s.ctx, "invoice", counts(&n, "done"))
	require.NoError(t, err)
	require.Equal(t, 2, r.Attempt)
	require.Greater(t, r.Token, unknown.Token)
	require.ErrorIs(t, end(), once.ErrUnknown, "the first attempt learns that it does not count")
	r, err = s.a.Once(s.ctx, "invoice", never)
	require.NoError(t, err)
	require.Equal(t, "done", string(r.Value))
}

// A session that is lost meanwhile costs Resolve only its entry in the queue.
func TestResolvedWhileTheSessionIsLost(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	require.PanicsWithValue(t, "oops", func() {
		_, _ = s.a.Once(s.ctx, "e", func(context.Context, int64) ([]byte, error) { panic("oops") })
	})
	_, err := s.b.Once(s.ctx, "e", never)
	unknown, ok := errors.AsType[*once.UnknownError](err)
	require.True(t, ok, "%v", err)
	held := s.b.Faults.HoldNext(etcdfault.OpTxn, etcdfault.Putting(s.keys.EffectMark("e")))
	resolved := make(chan error, 1)
	go func() { resolved <- s.b.Resolve(s.ctx, "e", unknown.Token, true, []byte("done")) }()
	<-held.Caught()
	_, err = s.client.Revoke(s.ctx, s.b.Keeper.Current().ID())
	require.NoError(t, err)
	require.NoError(t, <-resolved)
	require.NoError(t, held.Release(s.ctx))
	r, err := s.a.Once(s.ctx, "e", never)
	require.NoError(t, err)
	require.Equal(t, "done", string(r.Value))
}

func TestPanicIsUnknown(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	require.PanicsWithValue(t, "oops", func() {
		_, _ = s.a.Once(s.ctx, "e", func(context.Context, int64) ([]byte, error) { panic("oops") })
	})
	_, err := s.a.Once(s.ctx, "e", never)
	require.ErrorIs(t, err, once.ErrUnknown)
}

// The answer to either write of the mark is lost. The effect runs once, and that is known.
func TestAnswersAreLost(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	var n atomic.Int32
	mark := etcdfault.Putting(s.keys.EffectMark("e"))
	s.a.Faults.LoseAnswer(etcdfault.OpTxn, mark)
	r, err := s.a.Once(s.ctx, "e", func(ctx context.Context, token int64) ([]byte, error) {
		s.a.Faults.LoseAnswer(etcdfault.OpTxn, mark)
		return counts(&n, "done")(ctx, token)
	})
	require.NoError(t, err)
	require.True(t, r.Ran)
	require.EqualValues(t, 1, n.Load())
	r, err = s.b.Once(s.ctx, "e", never)
	require.NoError(t, err)
	require.Equal(t, "done", string(r.Value))
}

// A write of the mark that reaches etcd after the end changes nothing.
func TestLateWriteIsRefused(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	late := s.a.Faults.HoldNext(etcdfault.OpTxn, etcdfault.Putting(s.keys.EffectMark("e")))
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := s.a.Once(ctx, "e", never)
		ended <- err
	}()
	<-late.Caught()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	var n atomic.Int32
	r, err := s.b.Once(s.ctx, "e", counts(&n, "done"))
	require.NoError(t, err)
	require.True(t, r.Ran, "nothing had begun")
	require.NoError(t, late.Release(s.ctx))
	r, err = s.b.Once(s.ctx, "e", never)
	require.NoError(t, err)
	require.Equal(t, "done", string(r.Value))
}

// A caller that gives up while the first write of the mark is in flight takes it back, whenever it reaches
// etcd: the effect did not begin, and all later callers know that.
func TestGivenUpBeforeItBegan(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	leaving := etcdfault.Deleting(s.keys.Effects().Root())
	for name, before := range map[string]etcdfault.Match{
		"before it is taken back": etcdfault.Putting(s.keys.EffectMark("before it is taken back")),
		"after that":              leaving,
	} {
		late := s.a.Faults.HoldNext(etcdfault.OpTxn, etcdfault.Putting(s.keys.EffectMark(name)))
		var arrived error
		arrive := sync.OnceFunc(func() { arrived = late.Release(s.ctx) })
		s.a.Faults.FailNext(etcdfault.OpWrite, errRefused, func(r etcdfault.Request) bool {
			if before(r) {
				arrive()
			}
			return false
		})
		ctx, cancel := context.WithCancel(s.ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := s.a.Once(ctx, name, never)
			ended <- err
		}()
		<-late.Caught()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled, name)
		arrive()
		require.NoError(t, arrived, name)
		var n atomic.Int32
		r, err := s.b.Once(s.ctx, name, counts(&n, "done"))
		require.NoError(t, err, name)
		require.True(t, r.Ran, name)
	}
}

// An entry that is lost before the effect began is replaced, even if this process does not know yet that its
// session is over.
func TestSessionLostBeforeItBegan(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	revoke := sync.OnceFunc(func() { _, _ = s.client.Revoke(s.ctx, s.a.Keeper.Current().ID()) })
	putting := etcdfault.Putting(s.keys.EffectMark("e"))
	s.a.Faults.FailNext(etcdfault.OpTxn, errRefused, func(r etcdfault.Request) bool {
		if putting(r) {
			revoke()
		}
		return false
	})
	var n atomic.Int32
	r, err := s.a.Once(s.ctx, "e", counts(&n, "done"))
	require.NoError(t, err)
	require.True(t, r.Ran)
	require.EqualValues(t, 1, n.Load())
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	inside, goOn := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		_, err := s.a.Once(s.ctx, "e", func(context.Context, int64) ([]byte, error) {
			close(inside)
			<-goOn
			return nil, nil
		})
		ended <- err
	}()
	<-inside
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Millisecond)
	defer cancel()
	_, err := s.b.Once(ctx, "e", never)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(goOn)
	require.NoError(t, <-ended)
}

// A time-out of a request to etcd is not the caller's time-out, and the error says so.
func TestEtcdThatDoesNotAnswer(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	s.a.Faults.HoldNext(etcdfault.OpGet, etcdfault.Getting(s.keys.EffectMark("e")))
	_, err := s.a.Once(s.ctx, "e", never)
	require.ErrorContains(t, err, `read the mark of effect "e": etcd did not answer within 1s: `)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, s.ctx.Err())
}

func TestUnknownErrorIsOneLine(t *testing.T) {
	t.Parallel()
	lost := errors.New("session lost")
	err := &once.UnknownError{Name: "e", Attempt: 1, By: "a:1", Token: 7, Err: errors.Join(errRefused, lost, lost)}
	require.EqualError(t, err, `effect "e", attempt 1 by a:1, token 7: it is not known whether the effect took place: `+
		"look where it would have taken place, then call Resolve: the mail server is away; session lost")
}

func TestMarksExpire(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	var n atomic.Int32
	for i := range 3 {
		_, err := s.a.Once(s.ctx, fmt.Sprint(i), counts(&n, ""))
		require.NoError(t, err)
	}
	leases := map[int64]bool{}
	for i := range 3 {
		leases[s.lease(fmt.Sprint(i))] = true
	}
	require.Len(t, leases, 1, "one lease for many")
	for id := range leases {
		ttl, err := s.client.TimeToLive(s.ctx, clientv3.LeaseID(id))
		require.NoError(t, err)
		require.Greater(t, ttl.TTL, int64(24*3600), "no less than the retention")
		_, err = s.client.Revoke(s.ctx, clientv3.LeaseID(id))
		require.NoError(t, err)
	}
	_, err := s.a.Once(s.ctx, "later", counts(&n, "done"))
	require.NoError(t, err, "a lease that is gone costs a write that fails")
	require.Equal(t, once.Done, s.look("later").State)
}

// lease returns the lease of an effect's mark.
func (s *testBed) lease(name string) int64 {
	s.Helper()
	resp, err := s.client.Get(s.ctx, s.keys.EffectMark(name))
	require.NoError(s, err)
	require.Len(s, resp.Kvs, 1)
	return resp.Kvs[0].Lease
}

// When a lease ends, etcd deletes its marks in one step, so they must be few.
func TestFewMarksShareALease(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	const many, workers = effects.MarksPerLease + 20, 20
	var wg sync.WaitGroup
	var n atomic.Int32
	for w := range workers {
		wg.Go(func() {
			for i := w; i < many; i += workers {
				_, err := s.a.Once(s.ctx, fmt.Sprint(i), counts(&n, ""))
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	leases := map[int64]int{}
	for i := range many {
		leases[s.lease(fmt.Sprint(i))]++
	}
	for id, marks := range leases {
		require.LessOrEqual(t, marks, effects.MarksPerLease, "on lease %x", id)
	}
}

func TestBadInput(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	_, err := s.a.Once(s.ctx, "", never)
	require.ErrorIs(t, err, lifecycle.ErrBadName)
	_, err = s.client.Put(s.ctx, s.keys.EffectMark("e"), "not json")
	require.NoError(t, err)
	_, err = s.a.Once(s.ctx, "e", never)
	require.ErrorContains(t, err, s.keys.EffectMark("e"))
	_, err = effects.New(effects.Config{Retention: time.Second})
	require.Error(t, err)
}
