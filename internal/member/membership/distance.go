package membership

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/crash/suspicion"
)

// probeCount is the number of requests that measure a node's distance from etcd before it registers. They are sent
// together, so they take no longer than one. etcd's client spreads them over its endpoints.
const probeCount = 6

// etcdDistance holds this node's distance from etcd as its record states it.
type etcdDistance struct {
	suspicion.Distance
	measuredRound time.Time // last renewal round that was measured
	leftToLease   bool      // crash detection leaves the node to its lease, and the log says so
	logged        suspicion.LoggedDistance
}

// measureDistance measures this node's distance from etcd and stores it in the record, before the node is registered
// under key. It fails if etcd answers no request.
func (m *Membership) measureDistance(ctx context.Context, key string) error {
	var trips [probeCount]suspicion.Trip
	var errs [probeCount]error
	var wg sync.WaitGroup
	for i := range probeCount {
		wg.Go(func() {
			began := time.Now()
			resp, err := m.cfg.Client.Get(clientv3.WithRequireLeader(ctx), key, clientv3.WithKeysOnly())
			if errs[i] = err; err == nil {
				trips[i] = suspicion.Trip{Member: resp.Header.GetMemberId(), Took: time.Since(began)}
			}
		})
	}
	wg.Wait()
	var answered []suspicion.Trip
	for i, err := range errs {
		if err == nil {
			answered = append(answered, trips[i])
		}
	}
	if len(answered) == 0 {
		return errs[0]
	}
	m.mu.Lock()
	warn := m.setDistance(suspicion.NewDistance(m.session.TTL(), answered...))
	m.distance.logged.RoundTrip = m.distance.RoundTrip()
	m.mu.Unlock()
	warn()
	return nil
}

// remeasureDistance uses the session's last read, if there was a renewal round since the last time.
func (m *Membership) remeasureDistance() {
	m.mu.Lock()
	if m.incarnation == 0 || m.record.ElectionOnly {
		m.mu.Unlock()
		return
	}
	// The two values may be of different rounds. Then one round counts for another, or is measured next time.
	renewed, trip := m.session.RenewedAt(), suspicion.Trip{}
	trip.Member, trip.Took = m.session.RoundTrip()
	if renewed.Equal(m.distance.measuredRound) || trip.Took == 0 {
		m.mu.Unlock()
		return
	}
	m.distance.measuredRound = renewed
	before := m.record.RoundTrip()
	at := time.Now()
	warn := m.setDistance(m.distance.OnTrip(at, trip))
	now, logged := m.record.RoundTrip(), m.distance.logged
	outdated := logged.Outdated(at, now)
	if outdated {
		m.distance.logged = suspicion.LoggedDistance{RoundTrip: now, At: at}
	}
	m.mu.Unlock()
	warn()
	if outdated {
		m.log.Info("this node's distance from etcd has changed, and with it how long it has to refute an accusation",
			"round_trip", now.String(), "before", logged.RoundTrip.String())
	}
	if now != before {
		m.wake.Send()
	}
}

// setDistance stores d in the record. The caller holds m.mu. It must call warn after releasing m.mu; warn logs
// if the node has become too far from etcd.
func (m *Membership) setDistance(d suspicion.Distance) (warn func()) {
	m.distance.Distance = d
	m.record.RoundTripMS = d.RoundTrip().Milliseconds()
	was, ttl := m.distance.leftToLease, time.Duration(m.record.TTL)*time.Second
	m.distance.leftToLease = suspicion.TooFar(d.RoundTrip(), ttl)
	if !m.distance.leftToLease || was || !m.cfg.RemovePredecessor {
		return func() {}
	}
	return func() {
		m.log.Warn("this node is so far from etcd that crash detection leaves it to its lease: if its process dies, the "+
			"others wait until that has run out; run it nearer to etcd, or raise the TTL",
			"round_trip", d.RoundTrip().String(), "ttl", ttl.String(),
			"ttl_needed", suspicion.LeastTTL(d.RoundTrip()).String())
	}
}
