package elector

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// Whatever record is in etcd, an elector that reads it waits, or requests a lease with a larger token.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"holderIdentity":"a","holderInstance":"i","leaseDuration":15000000000,"leaderTransitions":3}`),
		int64(1))
	f.Add([]byte(`{"leaderTransitions":9223372036854775807}`), int64(1)<<62)
	f.Add([]byte(`{"leaseDuration":-1,"renewTime":"2026-01-02T03:04:05Z"}`), int64(-1))
	f.Add([]byte(`null`), int64(0))
	f.Fuzz(func(t *testing.T, value []byte, after int64) {
		var r etcdRecord
		if json.Unmarshal(value, &r) != nil {
			return
		}
		read := deadline.Instant{Mono: 1, Wall: 1}
		s := leaseState{id: "me", instance: "my instance", duration: 15 * time.Second, period: 2 * time.Second}
		s = s.withRead(leaseOf(r, 7), true, read)
		now := deadline.Instant{Mono: 1 + max(0, after%int64(48*time.Hour)), Wall: 1}
		switch step := s.nextStep(now); step.do {
		case doUpdate:
			require.Greater(t, step.lease.LeaderTransitions, r.LeaderTransitions)
			require.Positive(t, step.lease.LeaderTransitions)
			require.Equal(t, "7", step.lease.Version)
		case doRest, doGet:
		default:
			require.Fail(t, "neither waits nor asks", "%v", step)
		}
		s.otherLeader(now)
	})
}
