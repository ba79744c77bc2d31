package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrBadRecord is wrapped by the errors of the record decoders: a key of the
// cluster's range holds something that this version cannot read.
var ErrBadRecord = errors.New("unreadable record")

// Record is what a member says of itself: the value of its node key.
type Record struct {
	// InstanceID is random per process: two processes at one address differ.
	InstanceID string `json:"instance_id"`
	// WatchKey is the public key by which those that the process watches recognize that it is the watcher: nil in
	// records of older versions. See node.SetRoster.
	WatchKey []byte `json:"watch_key,omitempty"`
	// Lease is the id of the member's session. A queue entry is this member's
	// if and only if its lease id is this one.
	Lease int64 `json:"lease"`
	// TTL is the granted time-to-live of that lease in seconds.
	TTL int64 `json:"ttl"`
	// Term is etcd's raft term in which that lease was granted; 0: an older version did not say.
	Term uint64 `json:"raft_term,omitempty"`
	// Hostname, HTTPAddress and Version are for people and for /cluster/leader.
	Hostname    string `json:"hostname,omitempty"`
	HTTPAddress string `json:"http_address,omitempty"`
	Version     string `json:"version,omitempty"`
	// Labels are the user's own.
	Labels map[string]string `json:"labels,omitempty"`
	// Shards is how many shards the member works with; 0: it takes no part in them.
	Shards int `json:"shards,omitempty"`
	// Weight is the member's share of the shards relative to others; 0 is 1.
	Weight int `json:"weight,omitempty"`
	// Observer members are registered and never stand for election.
	Observer bool `json:"observer,omitempty"`
	// Draining members give their shards up and get none. Apart from that they are members
	// like any other, unless they are Stopping.
	Draining bool `json:"draining,omitempty"`
	// Stopping members are on their way out.
	Stopping bool `json:"stopping,omitempty"`
	// ElectionFailed says that this member cannot campaign, for Reason. Only
	// such members take part in fallback.
	ElectionFailed bool   `json:"election_failed,omitempty"`
	Reason         string `json:"reason,omitempty"`
	// RoundTripMS is how long one request of this member's to etcd takes, in milliseconds,
	// rounded up to one of a few values: an accused member has the longer to refute. 0 is a
	// member near etcd, or of a version that does not say.
	RoundTripMS int64 `json:"round_trip_ms,omitempty"`
	// Left says that this member has given up all it had, and that its lease is about to be revoked. It
	// is said only where that could not be distinguished from an end that came too early.
	Left bool `json:"left,omitempty"`
	// RevokedEarly says that this member's session before this one was revoked, or its key gone, while it had been
	// renewed in time. Where that was etcd itself, others have the same happen to them.
	RevokedEarly bool `json:"revoked_early,omitempty"`
}

// RoundTrip is RoundTripMS as a duration. What no member writes, less than nothing or more
// than an hour, is nothing or an hour.
func (r Record) RoundTrip() time.Duration {
	return time.Duration(min(max(r.RoundTripMS, 0), time.Hour.Milliseconds())) * time.Millisecond
}

// Encode is the record as it is stored.
func (r Record) Encode() string { return encode(r) }

// AsStored is the record as it comes back from etcd: bytes that are no UTF-8 do
// not survive JSON, and a record that differs from what is stored would be
// written forever.
func (r Record) AsStored() Record {
	stored, err := DecodeRecord([]byte(r.Encode()))
	if err != nil {
		panic(fmt.Sprintf("state: a record did not decode: %v", err))
	}
	return stored
}

// DecodeRecord reads a node key's value.
func DecodeRecord(value []byte) (Record, error) { return decode[Record](value) }

// RequestKind is what an operator asks of the leader.
type RequestKind string

// The requests.
const (
	RequestResign   RequestKind = "resign"
	RequestTransfer RequestKind = "transfer"
)

// RequestRecord is the value of the leader-request key. It is void as soon as
// the leader's token is no longer Token, or the target's incarnation no longer
// Incarnation: an old request never moves a later term.
type RequestRecord struct {
	Kind        RequestKind `json:"kind"`
	Token       int64       `json:"token"`
	Target      string      `json:"target,omitempty"`
	Incarnation int64       `json:"incarnation,omitempty"`
}

// Encode is the request as it is stored.
func (r RequestRecord) Encode() string { return encode(r) }

// DecodeRequest reads the leader-request key's value.
func DecodeRequest(value []byte) (RequestRecord, error) { return decode[RequestRecord](value) }

// AccusationRecord is the value of an accusation: the accuser holds that the
// accused incarnation's process is gone, and why.
type AccusationRecord struct {
	Incarnation int64  `json:"incarnation"`
	Evidence    string `json:"evidence"`
}

// Encode is the accusation as it is stored.
func (r AccusationRecord) Encode() string { return encode(r) }

// DecodeAccusation reads an accusation's value.
func DecodeAccusation(value []byte) (AccusationRecord, error) {
	return decode[AccusationRecord](value)
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("state: a record of strings and numbers did not encode: %v", err))
	}
	return string(b)
}

func decode[T any](value []byte) (T, error) {
	var v T
	if err := json.Unmarshal(value, &v); err != nil {
		return v, fmt.Errorf("%w: %w", ErrBadRecord, err)
	}
	return v, nil
}
