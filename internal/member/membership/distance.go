package membership

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
)

// probeCount is the number of requests that measure a node's distance from etcd before it registers. They are sent
// together, so they take no longer than one. etcd's client spreads them over its endpoints.
const probeCount = 6

// farMeasureEvery is the longest pause between looks at the session's rounds while the node seems too far from etcd.
// After two such pauses without a round it requests one. Up to a TTL of 40 s the session's own rounds are as frequent.
const farMeasureEvery = 7 * time.Second

// etcdDistance holds this node's distance from etcd as its record states it.
type etcdDistance struct {
	suspicion.Distance
	looked        time.Time             // last look at the session's rounds
	measuredRound time.Time             // last renewal round that was measured
	measured      etcdsession.RoundTrip // the last one that was measured
	leftToLease   bool                  // crash detection leaves the node to its lease, and the log says so
	farForSilence bool                  // the node has no silence time-out because of its distance, and the log says so
	logged        suspicion.LoggedDistance
}

// isNew reports whether trip, known after the renewal at renewed, is to be measured: once, and one for each renewal.
func (d *etcdDistance) isNew(renewed time.Time, trip etcdsession.RoundTrip) bool {
	return trip.Took > 0 && trip != d.measured && !renewed.Equal(d.measuredRound)
}

// measureDistance measures this node's distance from etcd and stores it in the record, before the node is registered
// under key. It fails if etcd answers no request. If the node seems too far, it measures again: just after a fault a
// member of etcd may be slow for a moment, and the record shrinks only with the session's next rounds.
func (m *Membership) measureDistance(ctx context.Context, key string) error {
	m.mu.Lock()
	ttl := m.session.TTL()
	m.mu.Unlock()
	trips, err := m.measureTrips(ctx, key)
	if err != nil {
		return err
	}
	d := suspicion.NewDistance(ttl, m.cfg.SilenceTimeout, trips...)
	if d.TooFar() {
		soon, cancel := context.WithTimeout(ctx, 2*d.RoundTrip())
		again, _ := m.measureTrips(soon, key) // without an answer in time it is as far as it seems
		cancel()
		d = suspicion.NewDistance(ttl, m.cfg.SilenceTimeout, append(trips, again...)...)
	}
	m.mu.Lock()
	warn := m.setDistance(d)
	m.distance.looked = time.Now()
	m.distance.logged.RoundTrip = m.distance.RoundTrip()
	m.mu.Unlock()
	warn()
	return nil
}

// measureTrips returns the round trips of probeCount requests that are sent together, as far as etcd answers them.
func (m *Membership) measureTrips(ctx context.Context, key string) (answered []suspicion.Trip, err error) {
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
	for i, err := range errs {
		if err == nil {
			answered = append(answered, trips[i])
		}
	}
	if len(answered) == 0 {
		return nil, errs[0]
	}
	return answered, nil
}

// remeasureDistance uses the session's last round trip, if there was another one, and a renewal round, since the last
// time. If there was none for long, and the node seems too far, it requests a round: with a long TTL the next one may
// be due only in an hour, and perhaps the node was too far only because all others joined with it.
func (m *Membership) remeasureDistance() {
	m.mu.Lock()
	if m.incarnation == 0 || m.record.ElectionOnly {
		m.mu.Unlock()
		return
	}
	// The two values may be of different rounds. Then one round counts for another, or is measured next time.
	renewed, trip := m.session.RenewedAt(), m.session.RoundTrip()
	far := m.distance.TooFar()
	if far && time.Since(renewed) >= 2*farMeasureEvery {
		m.session.RequestRenewal()
	}
	if !far && time.Since(m.distance.looked) < m.cfg.MeasureEvery/2 || !m.distance.isNew(renewed, trip) {
		m.mu.Unlock()
		return
	}
	m.distance.looked, m.distance.measuredRound, m.distance.measured = time.Now(), renewed, trip
	before := m.record.RoundTrip()
	at := time.Now()
	warn := m.setDistance(m.distance.OnTrip(at, suspicion.Trip{Member: trip.Member, Took: trip.Took}))
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
	was, ttl := m.distance, time.Duration(m.record.TTL)*time.Second
	m.distance.Distance = d
	m.record.RoundTripMS = d.RoundTrip().Milliseconds()
	m.distance.leftToLease = suspicion.TooFar(d.RoundTrip(), ttl)
	m.distance.farForSilence = suspicion.TooFarForSilence(d.RoundTrip(), m.cfg.SilenceTimeout)
	switch {
	case m.distance.leftToLease && !was.leftToLease && m.cfg.RemovePredecessor:
		return func() {
			m.log.Warn("this node is so far from etcd that crash detection leaves it to its lease: if its process dies, the "+
				"others wait until that has run out; run it nearer to etcd, or raise the TTL",
				"round_trip", d.RoundTrip().String(), "ttl", ttl.String(),
				"ttl_needed", suspicion.LeastTTL(d.RoundTrip()).String())
		}
	case m.distance.farForSilence && !was.farForSilence && !m.distance.leftToLease:
		return func() {
			m.log.Warn("this node is so far from etcd that it has no silence time-out: if it stands still or is cut off, the "+
				"others wait until its lease has run out; run it nearer to etcd, or raise the silence time-out",
				"round_trip", d.RoundTrip().String(), "silence_timeout", m.cfg.SilenceTimeout.String(),
				"silence_timeout_needed", suspicion.LeastSilenceTimeoutAt(d.RoundTrip()).String())
		}
	}
	return func() {}
}
