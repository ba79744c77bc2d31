package endpoints

import "time"

const (
	// patience is the time that an endpoint has to answer before requests are sent to others instead. Where etcd is
	// farther than that, its endpoints are all passed over while they have requests, so they take turns as ever.
	patience = 50 * time.Millisecond
	// memory is the time for which an endpoint that owed answers is remembered after its last request was given up.
	memory = time.Second
)

// debt describes the requests that one endpoint has not answered. The zero value is an endpoint without any. The
// methods on… return the debt after an event.
type debt struct {
	waiting  int       // requests in progress
	since    time.Time // of the first request after the last answer, or of that answer if more were in progress
	forgetAt time.Time // if none is in progress
}

// forgotten reports whether nothing is left to know.
func (d debt) forgotten(now time.Time) bool { return d.waiting == 0 && !now.Before(d.forgetAt) }

// overdue reports whether the endpoint does not answer.
func (d debt) overdue(now time.Time) bool { return !d.forgotten(now) && now.Sub(d.since) >= patience }

func (d debt) onSent(now time.Time) debt {
	if d.forgotten(now) {
		d.since = now
	}
	d.waiting++
	return d
}

// onAnswered forgives the endpoint for all requests so far. A member of etcd answers some requests never, such as
// those that it has forwarded to a leader that is gone.
func (d debt) onAnswered(now time.Time) debt {
	return debt{waiting: d.waiting - 1, since: now}
}

// onGivenUp is for a request that ends without an answer.
func (d debt) onGivenUp(now time.Time) debt {
	overdue := d.overdue(now)
	if d.waiting--; overdue {
		d.forgetAt = now.Add(memory)
	}
	return d
}
