package cluster

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// The status says which proof a session lives on.
func TestProofOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := modeletcd.New()
		defer server.Close()
		var lost atomic.Bool
		conn := server.Connect("", func(any) modeletcd.Delivery {
			return modeletcd.Delivery{Lost: lost.Load(), Out: time.Millisecond, Back: time.Millisecond}
		})
		s, err := etcdsession.Open(t.Context(), etcdsession.Config{TTL: 30 * time.Second, ReadKey: "/g/nodes/a",
			Process: etcd.Process{Client: conn.Client()}})
		require.NoError(t, err)
		put, err := conn.Client().Put(t.Context(), "/g/nodes/a", "")
		require.NoError(t, err)
		s.ProtectKey("/g/nodes/a", put.Header.Revision, nil)
		defer func() {
			lost.Store(false)
			_ = s.Close(t.Context())
		}()
		requireProof := func(armed int, want Proof) {
			t.Helper()
			n, proof := proofOf(s)
			require.Equal(t, want, proof)
			require.Equal(t, armed, n)
		}
		requireProof(0, ProofNone)
		s.BeginProofs(deadline.ProofTimes{Acknowledged: 4 * time.Second, Read: 2 * time.Second})
		requireProof(0, ProofNone)
		s.UpdateProofs(func(p *deadline.Proofs, now deadline.Instant) deadline.Proofs { return p.Arm(7, 1, now) })
		requireProof(1, ProofAcknowledged)
		<-time.After(5 * time.Second)
		requireProof(1, ProofRead)
		lost.Store(true)
		<-time.After(3 * time.Second)
		requireProof(1, ProofLapsed)
		require.False(t, s.Valid())
	})
}
