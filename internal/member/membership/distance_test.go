package membership

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
)

// A read that counts for nothing, because etcd may have elected a leader meanwhile, leaves the one before, which must
// not be measured again. Nor do several reads of one renewal count as several.
func TestEachRoundTripIsMeasuredOnce(t *testing.T) {
	at := time.Now()
	trip := etcdsession.RoundTrip{Member: 1, Took: time.Second, Sent: deadline.Now()}
	next := trip
	next.Sent = trip.Sent.Add(time.Second)
	var d etcdDistance
	require.False(t, d.isNew(at, etcdsession.RoundTrip{}), "nothing was read")
	require.True(t, d.isNew(at, trip))
	d.measuredRound, d.measured = at, trip
	require.False(t, d.isNew(at.Add(time.Second), trip))
	require.False(t, d.isNew(at, next))
	require.True(t, d.isNew(at.Add(time.Second), next))
}
