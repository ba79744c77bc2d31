package candidacy

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
)

const (
	// retryDelay keeps a request without effect from being sent in a loop.
	retryDelay = 50 * time.Millisecond
	// failuresAllowed is the number of failures in a row, over at least a TTL, that make the election failed.
	failuresAllowed = 5
)

// requestRetry is the pause after a failed request, cut to a third of the TTL. It has no jitter, because a
// handover may wait for the request, and only few members have one to make.
var requestRetry = backoff.Policy{First: retryDelay, Last: 64 * retryDelay}

// campaign is the progress of the call of concurrency.Election.Campaign.
type campaign struct {
	running bool
	// joined is the CreateRevision of its key, 0 before it has one.
	joined int64
}

// keyMayAppear reports whether the campaign's key may still appear in a snapshot after s. That can be so even after
// the campaign has returned, while the snapshot is behind.
func (c campaign) keyMayAppear(s *state.Snapshot) bool {
	return s.Revision < c.joined || c.running && c.joined == 0
}

// campaignFailures counts failed campaigns in a row.
type campaignFailures struct {
	count   int
	first   time.Time
	nextTry time.Time
}

// Outcome is the result of a campaign or a request.
type Outcome int

// The outcomes.
const (
	Succeeded Outcome = iota // it succeeded
	Failed                   // it may have succeeded
	Denied                   // etcd's access control refused it
)

// CampaignBegan records that a campaign is in progress, and no other.
func (c Candidacy) CampaignBegan() Candidacy {
	c.campaign = campaign{running: true}
	return c
}

// CampaignJoined records the key of the campaign, as soon as etcd has answered.
func (c Candidacy) CampaignJoined(revision int64) Candidacy {
	c.campaign.joined = revision
	return c
}

// CampaignEnded records that the campaign returned. A cancelled campaign counts as Succeeded. Enough failures in a
// row make the election failed.
func (c Candidacy) CampaignEnded(now time.Time, how Outcome) Candidacy {
	c.campaign.running = false
	if how == Succeeded {
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
	// The pause grows linearly, not exponentially, because the cluster may have no leader until a campaign
	// succeeds.
	wait := min(time.Duration(f.count)*4*retryDelay, c.ttl/3)
	if c.failed {
		wait = min(max(c.ttl/3, 500*time.Millisecond), 3*time.Second)
	}
	f.nextTry = now.Add(wait)
	return c
}
