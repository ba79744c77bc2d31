package etcdsession

import "time"

// remindEvery is the interval at which the log repeats that there is still no session.
const remindEvery = 30 * time.Second

// outage is a period of time without a session, for the log. The zero value means that there is a session.
type outage struct {
	since      time.Time // zero: there is a session
	lastLogged time.Time
}

func (o *outage) begin(now time.Time) { o.since, o.lastLogged = now, now }

func (o *outage) end() { *o = outage{} }

// reminderDue reports whether the log should mention the outage again, which is the case every remindEvery.
func (o *outage) reminderDue(now time.Time) bool {
	if o.since.IsZero() || now.Sub(o.lastLogged) < remindEvery {
		return false
	}
	o.lastLogged = now
	return true
}

// length returns the duration of the outage so far, formatted for a log.
func (o *outage) length(now time.Time) string {
	return now.Sub(o.since).Round(time.Millisecond).String()
}

// logReminder logs from time to time that there is still no session, and the reason.
func (k *Keeper) logReminder(err error) {
	if now := time.Now(); k.outage.reminderDue(now) {
		k.log.Warn("this process still has no session with etcd, retrying", "away", k.outage.length(now),
			"error", k.explainRefusal(err))
	}
}
