package effects_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/leasequeue/effects"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/testbed"
)

func (s *testBed) look(name string) once.Standing {
	s.Helper()
	st, err := effects.ReadState(s.ctx, s.client, s.keys, name)
	require.NoError(s, err)
	return st
}

func (s *testBed) list(q once.Query) (names []string, more bool) {
	s.Helper()
	found, more, err := effects.List(s.ctx, s.client, s.keys, q)
	require.NoError(s, err)
	for _, st := range found {
		names = append(names, st.Name)
		if st.State != once.Unreadable {
			require.Equal(s, s.look(st.Name), st)
		}
	}
	return names, more
}

// Look shows an effect from the start of an attempt to its resolution.
func TestLook(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	_, err := effects.ReadState(s.ctx, s.client, s.keys, "invoice")
	require.ErrorIs(t, err, once.ErrNoMark)
	_, err = effects.ReadState(s.ctx, s.client, s.keys, "")
	require.ErrorIs(t, err, lifecycle.ErrBadName)

	began := time.Now().Truncate(time.Microsecond)
	end := s.cutDown("invoice")
	st := s.look("invoice")
	require.Equal(t, once.Running, st.State, "its lease lives, also if nobody reaches the process")
	require.Equal(t, 1, st.Attempt)
	require.Equal(t, "a:1", st.By)
	require.Equal(t, 24*time.Hour, st.Retention)
	require.WithinRange(t, st.At, began, time.Now())

	_, err = s.b.Once(s.ctx, "invoice", never)
	unknown, ok := errors.AsType[*once.UnknownError](err)
	require.True(t, ok, "%v", err)
	was := st
	was.State = once.Unknown
	require.Equal(t, was, s.look("invoice"))
	require.Equal(t, unknown.Token, st.Token)

	require.NoError(t, s.b.Resolve(s.ctx, "invoice", unknown.Token, true, []byte("number 7")))
	st = s.look("invoice")
	require.Equal(t, once.Done, st.State)
	require.Equal(t, "number 7", string(st.Value))
	require.Equal(t, "b:1", st.Resolved, "who said so")
	require.Equal(t, "a:1", st.By)
	require.ErrorIs(t, end(), once.ErrUnknown)

	_, err = s.b.Once(s.ctx, "mail", func(context.Context, int64) ([]byte, error) { return nil, errRefused })
	require.Equal(t, errRefused, err)
	st = s.look("mail")
	require.Equal(t, once.Failed, st.State)
	require.Equal(t, errRefused.Error(), st.Error)
	require.Empty(t, st.Resolved)
	var n atomic.Int32
	_, err = s.b.Once(s.ctx, "mail", counts(&n, "sent"))
	require.NoError(t, err)
	require.Equal(t, 2, s.look("mail").Attempt)

	require.Panics(t, func() {
		_, _ = s.b.Once(s.ctx, "oops", func(context.Context, int64) ([]byte, error) { panic("oops") })
	})
	require.Equal(t, once.Unknown, s.look("oops").State, "though its session lives")
	require.NoError(t, s.b.Resolve(s.ctx, "oops", s.look("oops").Token, false, nil))
	st = s.look("oops")
	require.Equal(t, once.Failed, st.State)
	require.Equal(t, "b:1", st.Resolved)
}

// Other entries in an effect's queue are not mistaken for the attempt.
func TestLookWhileOthersQueue(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	require.Panics(t, func() {
		_, _ = s.a.Once(s.ctx, "e", func(context.Context, int64) ([]byte, error) { panic("oops") })
	})
	st := s.look("e")
	_, err := s.client.Put(s.ctx, s.keys.Effects().EntryKey("e", 1, 1, state.EntryTraits{}), "another")
	require.NoError(t, err)
	require.Equal(t, st, s.look("e"))
	require.Equal(t, once.Unknown, st.State)
}

func TestList(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	names, more := s.list(once.Query{Limit: 5})
	require.Empty(t, names)
	require.False(t, more)

	var n atomic.Int32
	for _, name := range []string{"d", "a/b c", "\xff\x00"} {
		_, err := s.a.Once(s.ctx, name, counts(&n, "done"))
		require.NoError(t, err)
	}
	for _, name := range []string{"c", "e"} {
		require.Panics(t, func() {
			_, _ = s.a.Once(s.ctx, name, func(context.Context, int64) ([]byte, error) { panic("oops") })
		})
	}
	for key, value := range map[string]string{s.keys.EffectMark("bad"): "not json",
		s.keys.EffectMark("odd"): `{"state":"odd"}`, s.keys.EffectMarks() + "no/name": "{}"} {
		_, err := s.client.Put(s.ctx, key, value)
		require.NoError(t, err)
	}
	inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := s.a.Once(s.ctx, "f", func(context.Context, int64) ([]byte, error) {
			close(inside)
			<-goOn
			return nil, nil
		})
		ended <- err
	}()
	<-inside

	all := []string{"\xff\x00", "a/b c", "bad", "c", "d", "e", "f", "odd"}
	names, more = s.list(once.Query{Limit: len(all)})
	require.Equal(t, all, names)
	require.False(t, more)
	names, more = s.list(once.Query{})
	require.Equal(t, all, names, "the zero query selects all")
	require.False(t, more)
	require.Equal(t, once.Running, s.look("f").State)
	found, _, err := effects.List(s.ctx, s.client, s.keys, once.Query{After: "a/b c", Limit: 1})
	require.NoError(t, err)
	require.Equal(t, once.Unreadable, found[0].State)
	require.NotEmpty(t, found[0].Error)

	names, more = s.list(once.Query{Unknown: true, Limit: 2})
	require.Equal(t, []string{"c", "e"}, names, "neither who runs, nor what cannot be read")
	require.False(t, more)
	names, more = s.list(once.Query{Unknown: true, Limit: 1})
	require.Equal(t, []string{"c"}, names)
	require.True(t, more)
	names, more = s.list(once.Query{Unknown: true, Limit: 1, After: "c"})
	require.Equal(t, []string{"e"}, names)
	require.False(t, more)
	close(goOn)
	require.NoError(t, <-ended)
}

// More marks than a request reads, and more than a transaction does.
func TestListPages(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	settled, err := s.client.Grant(s.ctx, 3600)
	require.NoError(t, err)
	var all, open []string
	for i := range 1210 {
		name := fmt.Sprintf("%04d", i)
		put := clientv3.OpPut(s.keys.EffectMark(name), `{"state":"done","attempt":1,"token":1}`,
			clientv3.WithLease(settled.ID))
		if i%10 == 9 {
			put = clientv3.OpPut(s.keys.EffectMark(name), `{"state":"running","attempt":1,"token":1}`)
			open = append(open, name)
		}
		_, err := s.client.Do(s.ctx, put)
		require.NoError(t, err)
		all = append(all, name)
	}
	walk := func(q once.Query) (found []string) {
		for {
			standings, more, err := effects.List(s.ctx, s.client, s.keys, q)
			require.NoError(t, err)
			require.LessOrEqual(t, len(standings), q.Limit)
			for _, st := range standings {
				found = append(found, st.Name)
				q.After = st.Name
			}
			if !more {
				return found
			}
			require.Len(t, standings, q.Limit)
		}
	}
	for _, limit := range []int{7, 50, 121, 605, 5000} {
		require.Equal(t, all, walk(once.Query{Limit: limit}))
		require.Equal(t, open, walk(once.Query{Limit: limit, Unknown: true}))
	}
}
