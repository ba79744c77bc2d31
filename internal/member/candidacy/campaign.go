package candidacy

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
)

const (
	// retryDelay keeps a request that achieved nothing from being sent in a loop.
	retryDelay = 50 * time.Millisecond
	// failuresAllowed in a row, over at least a TTL, make the election failed.
	failuresAllowed = 5
)

// requestRetry is how long to wait after a request that failed, but no longer than a third of the TTL.
// Without jitter: a hand-over may wait for the request, and of all members few have one to make.
var requestRetry = backoff.Policy{First: retryDelay, Last: 64 * retryDelay}

// campaign is how far the call of concurrency.Election.Campaign has come.
type campaign struct {
	running bool
	// joined is the CreateRevision of the key it queues with, 0 before it has one.
	joined int64
}

// waiting reports whether the campaign's key may yet show up in s: also after
// the campaign returned, while the snapshot is behind it.
func (c campaign) waiting(s *state.Snapshot) bool {
	return s.Revision < c.joined || c.running && c.joined == 0
}

// failures counts campaigns that failed in a row.
type failures struct {
	count   int
	first   time.Time
	nextTry time.Time
}

// Outcome is how a campaign or a request ended.
type Outcome int

// The outcomes.
const (
	Worked Outcome = iota // it did what it was to do
	Failed                // it may have
	Denied                // etcd's access control refused it
)

// CampaignBegan notes that a campaign is under way, and no other.
func (c Candidacy) CampaignBegan() Candidacy {
	c.campaign = campaign{running: true}
	return c
}

// Joined notes the key that the campaign queues with, as soon as etcd said it.
func (c Candidacy) Joined(revision int64) Candidacy {
	c.campaign.joined = revision
	return c
}

// CampaignEnded notes that the campaign returned; one that was cancelled has not
// failed. It counts failures: enough of them make the election failed.
func (c Candidacy) CampaignEnded(now time.Time, how Outcome) Candidacy {
	c.campaign.running = false
	if how == Worked {
		return c
	}
	f := &c.failures
	if f.count == 0 {
		f.first = now
	}
	f.count++
	if how == Denied || f.count >= failuresAllowed && now.Sub(f.first) >= c.ttl {
		c.failed = true
	}
	// By the same step longer each time, not doubled: the cluster may have no leader until one works.
	wait := min(time.Duration(f.count)*4*retryDelay, c.ttl/3)
	if c.failed {
		wait = min(max(c.ttl/3, 500*time.Millisecond), 3*time.Second)
	}
	f.nextTry = now.Add(wait)
	return c
}
