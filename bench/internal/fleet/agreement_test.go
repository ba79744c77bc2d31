package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAgreementIsOfTheLast(t *testing.T) {
	one, two := &follower{names: "a:1"}, &follower{names: "a:1"}
	a := &Agreement{followers: map[*Node]*follower{{}: one, {Address: "two"}: two}}
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
	over, cancel := context.WithCancel(t.Context())
	cancel()

	a.Expect("b:1")
	a.saw(one, "", at(1))
	a.saw(one, "b:1", at(2))
	a.saw(one, "b:1", at(3))
	_, err := a.Await(over)
	require.ErrorIs(t, err, context.Canceled, "one says so twice, the other one not yet")
	a.saw(one, "", at(4)) // it changed again
	a.saw(two, "b:1", at(5))
	_, err = a.Await(over)
	require.ErrorIs(t, err, context.Canceled)
	a.saw(one, "b:1", at(6))
	change, err := a.Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, Change{First: at(2), Last: at(6)}, change)
	a.saw(two, "c:1", at(7)) // ignored after the agreement
	change, err = a.Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, at(6), change.Last)
}
