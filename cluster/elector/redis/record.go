package redis

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/internal/state/format"
)

// record is the stored form of a lease. The Version of a lease is its whole text, so it has the fields that this
// release does not know, too.
type record struct {
	Version           string        `json:"version"` // random, so that no text is written twice
	HolderIdentity    string        `json:"holderIdentity"`
	HolderInstance    string        `json:"holderInstance"`
	LeaseDuration     time.Duration `json:"leaseDurationNanoseconds"`
	AcquireTime       time.Time     `json:"acquireTime"`
	RenewTime         time.Time     `json:"renewTime"`
	LeaderTransitions int64         `json:"leaderTransitions"`
}

var errNoVersion = errors.New("it has no version")

// decodeRecord returns the lease in a stored text, and the fields that this release does not know.
func decodeRecord(subject, text string) (elector.Lease, format.Rest, error) {
	var r record
	rest, err := format.Decode(subject, []byte(text), &r)
	if err == nil && r.Version == "" {
		err = errNoVersion
	}
	switch {
	case errors.Is(err, elector.ErrFormat):
		return elector.Lease{}, nil, err
	case err != nil:
		return elector.Lease{}, nil, fmt.Errorf("%s holds no lease record; delete it if nothing else uses it, "+
			"otherwise use another Key: %w", subject, err)
	}
	return elector.Lease{HolderIdentity: r.HolderIdentity, HolderInstance: r.HolderInstance,
		LeaseDuration: r.LeaseDuration, AcquireTime: r.AcquireTime, RenewTime: r.RenewTime,
		LeaderTransitions: r.LeaderTransitions, Version: text}, rest, nil
}

// encodeRecord returns the lease with the text to store as its Version. rest has the fields to keep.
func encodeRecord(l elector.Lease, rest format.Rest) (elector.Lease, error) {
	l.AcquireTime, l.RenewTime = l.AcquireTime.UTC(), l.RenewTime.UTC()
	text, err := format.Encode(record{rand.Text(), l.HolderIdentity, l.HolderInstance, l.LeaseDuration, l.AcquireTime,
		l.RenewTime, l.LeaderTransitions}, rest)
	l.Version = string(text)
	return l, err
}
