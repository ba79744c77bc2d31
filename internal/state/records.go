package state

import (
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/state/format"
)

// ErrBadRecord is wrapped by the errors of the record decoders. It reports that a key of the cluster's range
// holds a value that this version cannot read.
var ErrBadRecord = errors.New("unreadable record")

// Record is the record of a member: the value of its node key.
type Record struct {
	// InstanceID is a random id per process. It distinguishes two processes at one address.
	InstanceID string `json:"instance_id"`
	// WatchKey is the public key with which the watched members verify that this process is their watcher. It
	// is nil in records of older versions. See peer.Node.SetRoster.
	WatchKey []byte `json:"watch_key,omitempty"`
	// Lease is the id of the member's session. A queue entry belongs to this member if and only if it has this
	// lease id.
	Lease int64 `json:"lease"`
	// TTL is the granted time-to-live of that lease, in seconds.
	TTL int64 `json:"ttl"`
	// Term is etcd's raft term in which that lease was granted; 0 in records of older versions.
	Term uint64 `json:"raft_term,omitempty"`
	// Hostname, HTTPAddress and Version are for operators and for /cluster/leader.
	Hostname    string `json:"hostname,omitempty"`
	HTTPAddress string `json:"http_address,omitempty"`
	Version     string `json:"version,omitempty"`
	// Labels holds the user's own labels.
	Labels map[string]string `json:"labels,omitempty"`
	// Shards is the number of shards that the member works with; 0 means that it takes no part in them.
	Shards int `json:"shards,omitempty"`
	// Weight is the member's share of the shards relative to others; 0 counts as 1.
	Weight int `json:"weight,omitempty"`
	// Observer is set if the member never stands for election.
	Observer bool `json:"observer,omitempty"`
	// ElectionOnly is set if the member is a candidate and nothing else: a process of package leaderelection. It has
	// no server, so its address is a name that cannot be dialed. It plans no shards and has none, crash detection
	// leaves it to its lease, and it takes no part in fallback.
	ElectionOnly bool `json:"election_only,omitempty"`
	// Draining is set if the member releases its shards and gets none. In all else it is an ordinary member,
	// unless it is Stopping.
	Draining bool `json:"draining,omitempty"`
	// Stopping is set if the member is stopping.
	Stopping bool `json:"stopping,omitempty"`
	// ElectionFailed is set if this member cannot campaign, for Reason. Only such members take part in
	// fallback.
	ElectionFailed bool   `json:"election_failed,omitempty"`
	Reason         string `json:"reason,omitempty"`
	// RoundTripMS is the duration of one of this member's requests to etcd, in milliseconds, rounded up to one
	// of a few values. It lengthens the time that the member has to refute an accusation. 0 means that the
	// member is near etcd, or that its version does not record it.
	RoundTripMS int64 `json:"round_trip_ms,omitempty"`
	// Left is set if this member has given up all it had and its lease is about to be revoked. It is set only
	// if the end could not otherwise be distinguished from one that came too early.
	Left bool `json:"left,omitempty"`
	// RevokedEarly is set if this member's former session was revoked, or its key gone, although the lease had
	// been renewed in time. If etcd itself did that, it may happen to other members too.
	RevokedEarly bool `json:"revoked_early,omitempty"`
	// Goverse is the release of Goverse that the member runs, and Formats the formats that it reads. Members of
	// releases before these fields read format 1 alone.
	Goverse string       `json:"goverse,omitempty"`
	Formats format.Range `json:"formats,omitzero"`
}

// RoundTrip returns RoundTripMS as a duration. Values that no member writes are limited to the range from 0 to
// an hour.
func (r Record) RoundTrip() time.Duration {
	return time.Duration(min(max(r.RoundTripMS, 0), time.Hour.Milliseconds())) * time.Millisecond
}

// Encode returns the record as it is stored.
func (r Record) Encode() string { return encodeJSON(r) }

// AsStored returns the record as it comes back from etcd. Bytes that are not UTF-8 do not survive JSON, and a
// record that differs from the stored one would be written again and again.
func (r Record) AsStored() Record {
	stored, err := DecodeRecord([]byte(r.Encode()))
	if err != nil {
		panic(fmt.Sprintf("state: a record did not decode: %v", err))
	}
	return stored
}

// DecodeRecord decodes the value of a node key.
func DecodeRecord(value []byte) (Record, error) { return decodeJSON[Record](value) }

// RequestKind is the kind of an operator's request to the leader.
type RequestKind string

// The kinds of requests.
const (
	RequestResign   RequestKind = "resign"
	RequestTransfer RequestKind = "transfer"
)

// RequestRecord is the value of the leader-request key. It is void as soon as the leader's token is no longer
// Token or the target's incarnation no longer Incarnation, so an old request never moves a later term.
type RequestRecord struct {
	Kind        RequestKind `json:"kind"`
	Token       int64       `json:"token"`
	Target      string      `json:"target,omitempty"`
	Incarnation int64       `json:"incarnation,omitempty"`
}

// Encode returns the request as it is stored.
func (r RequestRecord) Encode() string { return encodeJSON(r) }

// DecodeRequest decodes the value of the leader-request key.
func DecodeRequest(value []byte) (RequestRecord, error) { return decodeJSON[RequestRecord](value) }

// AccusationRecord is the value of an accusation. It says that the process of that incarnation is gone, and
// gives the evidence.
type AccusationRecord struct {
	Incarnation int64  `json:"incarnation"`
	Evidence    string `json:"evidence"`
	// Removed is set if the transaction that wrote the record also removed that incarnation. Such an accusation is the
	// mark of a removal for silence, and void from the start. An accusation without it is no evidence of a removal: its
	// member's lease may have ended meanwhile. Releases before this field ignore it.
	Removed bool `json:"removed,omitempty"`
}

// Encode returns the accusation as it is stored.
func (r AccusationRecord) Encode() string { return encodeJSON(r) }

// DecodeAccusation decodes the value of an accusation.
func DecodeAccusation(value []byte) (AccusationRecord, error) {
	return decodeJSON[AccusationRecord](value)
}

func encodeJSON(v any) string {
	b, err := format.Encode(v, nil)
	if err != nil {
		panic(fmt.Sprintf("state: a record of strings and numbers did not encode: %v", err))
	}
	return string(b)
}

func decodeJSON[T any](value []byte) (T, error) {
	var v T
	if err := format.DecodeKnown("the record", value, &v); err != nil {
		return v, fmt.Errorf("%w: %w", ErrBadRecord, err)
	}
	return v, nil
}
