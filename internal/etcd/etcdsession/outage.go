package etcdsession

import "time"

// remindEvery is how often a log reports that there is still no session.
const remindEvery = 30 * time.Second

// outage is a period of time without a session, for the log. The zero value is
// none.
type outage struct {
	since time.Time // zero: none
	said  time.Time
}

func (o *outage) begin(now time.Time) { o.since, o.said = now, now }

func (o *outage) end() { *o = outage{} }

// due reports, every remindEvery in an outage, that it is time to say so.
func (o *outage) due(now time.Time) bool {
	if o.since.IsZero() || now.Sub(o.said) < remindEvery {
		return false
	}
	o.said = now
	return true
}

// length is how long the outage has lasted, as people write it.
func (o *outage) length(now time.Time) string {
	return now.Sub(o.since).Round(time.Millisecond).String()
}

// remind says from time to time that there is still no session, and why.
func (k *Keeper) remind(err error) {
	if now := time.Now(); k.outage.due(now) {
		k.log.Warn("this process still has no session with etcd, retrying", "away", k.outage.length(now),
			"error", k.explain(err))
	}
}
