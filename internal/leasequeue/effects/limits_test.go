package effects_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/leasequeue/effects"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/test/testbed"
)

// Every caller gets the same answer: the one that runs the effect, the same process later, another process, and
// one that starts afterwards. Older marks, which do not record a dropped value, can still be read.
func TestLimitsAreTheSameForEveryCaller(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	returns := func(value string) func(context.Context, int64) ([]byte, error) {
		return func(context.Context, int64) ([]byte, error) { return []byte(value), nil }
	}
	long := strings.Repeat("x", once.MaxValue+1)
	old := func(name, value string) {
		_, err := s.client.Put(s.ctx, s.keys.EffectMark(name), `{"state":"done","attempt":3,"token":7,"by":"a:1"`+value+`}`)
		require.NoError(t, err)
	}
	old("old and dropped", "")
	old("old", `,"value":"aGk="`)
	for _, test := range []struct {
		name, returned string
		want           error
		kept           string // for later callers
		dropped        int
	}{
		{"empty", "", nil, "", 0},
		{"longest", long[1:], nil, long[1:], 0},
		{"too long", long, once.ErrValueTooLong, "", len(long)},
		{"far too long", strings.Repeat(long, 40), once.ErrValueTooLong, "", 40 * len(long)},
		{"old and dropped", "", nil, "", 0},
		{"old", "hi", nil, "hi", 0},
		{strings.Repeat("n", 513), "", lifecycle.ErrBadName, "", 0},
	} {
		first, err := s.a.Once(s.ctx, test.name, returns(test.returned))
		require.ErrorIs(t, err, test.want, "%.20s: the first", test.name)
		if first.Ran {
			require.Equal(t, test.returned, string(first.Value), "%.20s", test.name)
		}
		for caller, p := range map[string]*process{"the same": s.a, "another": s.b, "a new one": s.start("c:1")} {
			r, err := p.Once(s.ctx, test.name, never)
			require.ErrorIs(t, err, test.want, "%.20s: %s", test.name, caller)
			require.Equal(t, test.kept, string(r.Value), "%.20s: %s", test.name, caller)
			require.Equal(t, []int64{int64(first.Attempt), first.Token}, []int64{int64(r.Attempt), r.Token})
			require.False(t, r.Ran)
		}
		if test.want == lifecycle.ErrBadName {
			continue
		}
		standing, err := effects.ReadState(s.ctx, s.client, s.keys, test.name)
		require.NoError(t, err)
		require.Equal(t, once.Done, standing.State)
		require.Equal(t, []int{len(test.kept), test.dropped}, []int{len(standing.Value), standing.Dropped})
		require.ErrorIs(t, s.b.Resolve(s.ctx, test.name, standing.Token, true, []byte(long)), once.ErrValueTooLong)
	}
	resp, err := s.client.Get(s.ctx, s.keys.EffectMark("too long"))
	require.NoError(t, err)
	require.Less(t, len(resp.Kvs[0].Value), 1000, "the mark")
}
