//go:build unix

package redis_test

import (
	"context"
	"net"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/elector/redis"
	"github.com/goverse/goverse/internal/test/redisserver"
)

// pair is a master and a replica, each with a client and a store of the same record. name leads to the master until a
// failover moves it.
type pair struct {
	ctx              context.Context
	master, replica  *redisserver.Server
	name             *place
	key              string
	onMaster         *goredis.Client
	onReplica        *goredis.Client
	atMaster, atRepl *redis.Store
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{ctx: testContext(t), key: newKey()}
	p.master = redisserver.StartForTest(t, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(p.master.Address())
	require.NoError(t, err)
	p.replica = redisserver.StartForTest(t, "--replicaof", host+" "+port)
	p.name = placeAt(p.master.Address())
	p.onMaster, p.onReplica = placeAt(p.master.Address()).client(t), placeAt(p.replica.Address()).client(t)
	p.atMaster, p.atRepl = newStore(t, p.onMaster, p.key), newStore(t, p.onReplica, p.key)
	return p
}

// named returns a store of the server that has the name.
func (p *pair) named(t *testing.T) *redis.Store { return newStore(t, p.name.client(t), p.key) }

// awaitReplica waits until the replica has a record that satisfies a condition.
func (p *pair) awaitReplica(t *testing.T, accept func(record string) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		record, err := p.onReplica.Get(p.ctx, p.key).Result()
		return err == nil && accept(record)
	}, time.Minute, 5*time.Millisecond)
}

// awaitCopy waits until the replica has the master's record.
func (p *pair) awaitCopy(t *testing.T) {
	t.Helper()
	p.awaitReplica(t, func(record string) bool { return record == p.onMaster.Get(p.ctx, p.key).Val() })
}

// lag makes the replica miss all writes from now on: it looks for its master at a port where there is none.
func (p *pair) lag(t *testing.T) {
	t.Helper()
	require.NoError(t, p.onReplica.ReplicaOf(p.ctx, "127.0.0.1", "1").Err())
}

// promote makes the replica a master.
func (p *pair) promote(t *testing.T) {
	t.Helper()
	require.NoError(t, p.onReplica.ReplicaOf(p.ctx, "NO", "ONE").Err())
}

// failOver kills the master and promotes the replica. The name leads nowhere until it is moved.
func (p *pair) failOver(t *testing.T) {
	t.Helper()
	p.name.move("127.0.0.1:1")
	p.master.Kill()
	p.promote(t)
}

// The package comment: a lost acquisition costs the lease. Two lead, with the same token.
func TestAFailoverLosesAnAcquisition(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	_, err := p.atMaster.CreateLease(p.ctx, elector.Lease{LeaderTransitions: 6}) // of a leader that has released it
	require.NoError(t, err)
	p.awaitCopy(t)
	p.lag(t)
	a := stand(t, p.named(t), "a", time.Hour)
	token := awaitTerm(p.ctx, t, a)
	p.failOver(t)
	b := stand(t, p.atRepl, "b", time.Hour)
	require.Equal(t, token, awaitTerm(p.ctx, t, b), "the token is given twice")
	require.True(t, a.IsLeader(), "and two lead")
	require.True(t, b.IsLeader())
	p.name.move(p.replica.Address())
	require.Eventually(t, func() bool { return !a.IsLeader() && a.Leader() == "b" }, time.Minute, time.Millisecond)
	require.True(t, b.IsLeader())
}

// The package comment: if several terms were lost, the next token is smaller.
func TestAFailoverLosesTerms(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	_, err := p.atMaster.CreateLease(p.ctx, elector.Lease{LeaderTransitions: 6})
	require.NoError(t, err)
	p.awaitCopy(t)
	p.lag(t)
	var token int64
	for range 3 {
		a := stand(t, p.atMaster, "a", time.Hour)
		token = awaitTerm(p.ctx, t, a)
		require.NoError(t, a.stop())
	}
	require.EqualValues(t, 9, token)
	p.failOver(t)
	require.EqualValues(t, 7, awaitTerm(p.ctx, t, stand(t, p.atRepl, "b", time.Hour)))
}

// The package comment: lost renewals cost nothing.
func TestAFailoverLosesRenewals(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	a := stand(t, p.named(t), "a", time.Hour)
	token := awaitTerm(p.ctx, t, a)
	p.awaitReplica(t, func(string) bool { return true })
	p.lag(t)
	before := awaitRecord(p.ctx, t, p.atMaster, func(elector.Lease) bool { return true })
	awaitRecord(p.ctx, t, p.atMaster, func(l elector.Lease) bool { return l.Version != before.Version })
	p.failOver(t)
	old := awaitRecord(p.ctx, t, p.atRepl, func(elector.Lease) bool { return true })
	b := stand(t, p.atRepl, "b", time.Hour)
	p.name.move(p.replica.Address())
	awaitRecord(p.ctx, t, p.atRepl, func(l elector.Lease) bool { return l.Version != old.Version })
	require.Eventually(t, func() bool { return b.Leader() == "a" }, time.Minute, time.Millisecond)
	require.Equal(t, token, a.Token())
	require.Empty(t, a.starts, "the term went on")
}

// The package comment: a former master that is cut off from its replicas confirms renewals, until
// min-replicas-to-write bounds it.
func TestAFormerMasterThatStillRuns(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	a := stand(t, p.atMaster, "a", 2*time.Second)
	token := awaitTerm(p.ctx, t, a)
	p.awaitReplica(t, func(string) bool { return true })
	p.promote(t)
	b := stand(t, p.atRepl, "b", 2*time.Second)
	require.Greater(t, awaitTerm(p.ctx, t, b), token, "the acquisition was replicated")
	before, err := p.atMaster.GetLease(p.ctx)
	require.NoError(t, err)
	awaitRecord(p.ctx, t, p.atMaster, func(l elector.Lease) bool {
		return l.HolderIdentity == "a" && l.RenewTime.Sub(before.RenewTime) > 2*time.Second
	})
	require.Eventually(t, func() bool { return a.IsLeader() && b.IsLeader() }, time.Minute, time.Millisecond,
		"two lead for longer than a lease")

	require.NoError(t, p.onMaster.ConfigSet(p.ctx, "min-replicas-max-lag", "1").Err())
	require.NoError(t, p.onMaster.ConfigSet(p.ctx, "min-replicas-to-write", "1").Err())
	require.Eventually(t, func() bool { return !a.IsLeader() }, time.Minute, time.Millisecond)
	_, err = p.atMaster.GetLease(p.ctx)
	require.ErrorContains(t, err, "NOREPLICAS")
}

// A replica answers neither reads nor writes, so a store of it never reports an older record.
func TestAReplicaRefuses(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	lease, err := p.atMaster.CreateLease(p.ctx, elector.Lease{})
	require.NoError(t, err)
	p.awaitCopy(t)
	_, err = p.atRepl.GetLease(p.ctx)
	require.ErrorContains(t, err, "connect to the master")
	_, err = p.atRepl.CreateLease(p.ctx, lease)
	require.ErrorContains(t, err, "connect to the master")
	require.NotErrorIs(t, err, elector.ErrExists)
	_, err = p.atRepl.UpdateLease(p.ctx, lease)
	require.ErrorContains(t, err, "connect to the master")
	lease.Version = `{"version":"another"}`
	_, err = p.atRepl.UpdateLease(p.ctx, lease)
	require.ErrorContains(t, err, "connect to the master")
	require.NotErrorIs(t, err, elector.ErrConflict)
}
