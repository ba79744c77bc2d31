package state

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// ErrBadPrefix is wrapped by every error of [NewKeys].
var ErrBadPrefix = errors.New("bad etcd prefix")

// Keys builds and parses all keys of one cluster. The zero value is not usable; see [NewKeys]. Keys is a value
// and safe for concurrent use.
//
// The cluster's state lies in one contiguous range, [Keys.RangeStart] to [Keys.RangeEnd], because '-' sorts
// before '/' and '0' after it. One watch delivers leader-acting, leader-request, leader/…, nodes-accused/…,
// nodes-doctor/…, nodes-drain/…, nodes-silent/…, nodes/… and shards/… in revision order.
type Keys struct{ prefix string }

// NewKeys returns the keys under prefix. A prefix starts with a slash, does not end with one, and has no empty,
// "." or ".." segments.
func NewKeys(prefix string) (Keys, error) {
	if err := checkPrefix(prefix); err != nil {
		if trimmed := strings.TrimRight(prefix, "/"); trimmed != prefix && checkPrefix(trimmed) == nil {
			return Keys{}, fmt.Errorf("%w %q: it must not end with a slash: use %s", ErrBadPrefix, prefix, trimmed)
		}
		return Keys{}, fmt.Errorf("%w %q: %w; use something like /goverse", ErrBadPrefix, prefix, err)
	}
	return Keys{prefix: prefix}, nil
}

func checkPrefix(prefix string) error {
	rest, ok := strings.CutPrefix(prefix, "/")
	if !ok {
		return errors.New("it must start with a slash")
	}
	for seg := range strings.SplitSeq(rest, "/") {
		switch seg {
		case "":
			return errors.New("it must not be empty or have an empty segment")
		case ".", "..":
			return errors.New(`it must not contain the segments "." or ".."`)
		}
	}
	for _, r := range prefix {
		if r <= ' ' || r == 0x7f {
			return errors.New("it must not contain spaces or control characters")
		}
	}
	return nil
}

// Prefix returns the cluster's prefix, without a trailing slash.
func (k Keys) Prefix() string { return k.prefix }

// RangeStart returns the first key of the cluster's range.
func (k Keys) RangeStart() string { return k.prefix + "/leader-" }

// RangeEnd returns the exclusive end of the cluster's range.
func (k Keys) RangeEnd() string { return k.prefix + "/shards0" }

// Election returns the election's name for concurrency.NewElection, which adds the trailing slash itself.
func (k Keys) Election() string { return k.prefix + "/leader" }

// Queue returns the prefix of all candidates' keys, with its slash.
func (k Keys) Queue() string { return k.prefix + "/leader/" }

// QueueEnd returns the exclusive end of the range of candidates' keys.
func (k Keys) QueueEnd() string { return k.prefix + "/leader0" }

// Candidate returns the key of the candidate on the given lease, spelled as by concurrency.Election.
func (k Keys) Candidate(lease int64) string { return fmt.Sprintf("%s/leader/%x", k.prefix, lease) }

// Acting returns the key of the acting leader in fallback.
func (k Keys) Acting() string { return k.prefix + "/leader-acting" }

// Request returns the key of an operator's request about leadership.
func (k Keys) Request() string { return k.prefix + "/leader-request" }

// Nodes returns the prefix of all member records, with its slash.
func (k Keys) Nodes() string { return k.prefix + "/nodes/" }

// Node returns the key of the member at address.
func (k Keys) Node(address string) string { return k.Nodes() + url.PathEscape(address) }

// Accusation returns the key of the accusation by accuser against the member at address.
func (k Keys) Accusation(address, accuser string) string {
	return k.AccusationsOf(address) + url.PathEscape(accuser)
}

// AccusationsOf returns the prefix of all accusations against the member at address, with its slash. It does not cover
// accusations of silence; see [Keys.SilenceAccusationsOf].
func (k Keys) AccusationsOf(address string) string {
	return k.prefix + "/nodes-accused/" + url.PathEscape(address) + "/"
}

// Silence returns the key of a watcher's mark that the member at address does not answer it. Nothing follows from a
// mark, unlike from an accusation of silence; see [Keys.SilenceAccusation].
func (k Keys) Silence(address, watcher string) string {
	return k.Silences() + url.PathEscape(address) + "/" + url.PathEscape(watcher)
}

// Silences returns the prefix of those keys, with its slash.
func (k Keys) Silences() string { return k.prefix + "/nodes-silent/" }

// SilenceAccusation returns the key of the accusation by accuser that the member at address is silent, which may lead
// to its removal. It lies outside the range: only the accused and its watchers read it.
func (k Keys) SilenceAccusation(address, accuser string) string {
	return k.SilenceAccusationsOf(address) + url.PathEscape(accuser)
}

// SilenceAccusationsOf returns the prefix of all accusations of silence against the member at address, with its slash.
func (k Keys) SilenceAccusationsOf(address string) string {
	return k.SilenceAccusations() + url.PathEscape(address) + "/"
}

// SilenceAccusations returns the prefix of all accusations of silence, with its slash.
func (k Keys) SilenceAccusations() string { return k.prefix + "/accused-silent/" }

// Drain returns the key of an operator's request about the shards of the member at address.
func (k Keys) Drain(address string) string {
	return k.prefix + "/nodes-drain/" + url.PathEscape(address)
}

// EtcdReplace returns the key of the progress of replacing a member of etcd. It lies outside the range.
func (k Keys) EtcdReplace(member string) string {
	return k.prefix + "/etcd-replace/" + url.PathEscape(member)
}

// ShardMap returns the key of the shard map.
func (k Keys) ShardMap() string { return k.prefix + "/shards/map" }

// Released returns the key of the report of the member at address about released shards.
func (k Keys) Released(address string) string {
	return k.prefix + "/shards/released/" + url.PathEscape(address)
}

// Doctor returns a key in the range by which goversed doctor checks that it may write there. Each check has
// another id. It means nothing to the members: its kind is KindOther.
func (k Keys) Doctor(id string) string { return k.DoctorKeys() + url.PathEscape(id) }

// DoctorKeys returns the prefix of those keys, with its slash.
func (k Keys) DoctorKeys() string { return k.prefix + "/nodes-doctor/" }

// KeyKind is the kind of a key in the cluster's range.
type KeyKind int

// The kinds of keys. KindOther is a key in the range that is not one of the others.
const (
	KindOther KeyKind = iota
	KindCandidate
	KindActing
	KindRequest
	KindNode
	KindAccusation
	KindSilence
	KindDrain
	KindShardMap
	KindReleased
)

// ParsedKey is the result of [Keys.Parse].
type ParsedKey struct {
	Kind    KeyKind
	Address string // of KindNode, KindAccusation, KindSilence, KindDrain, KindReleased
	Accuser string // of KindAccusation
	Watcher string // of KindSilence
	Lease   int64  // of KindCandidate; 0 if the key has no lease id
}

// Parse returns the kind and the parts of key. Every key below leader/ is a candidate, however it is spelled,
// because concurrency.Election queues behind all of them.
func (k Keys) Parse(key string) ParsedKey {
	rest, ok := strings.CutPrefix(key, k.prefix+"/")
	if !ok {
		return ParsedKey{}
	}
	switch rest {
	case "leader-acting":
		return ParsedKey{Kind: KindActing}
	case "leader-request":
		return ParsedKey{Kind: KindRequest}
	case "shards/map":
		return ParsedKey{Kind: KindShardMap}
	}
	if name, ok := strings.CutPrefix(rest, "leader/"); ok {
		return ParsedKey{Kind: KindCandidate, Lease: parseLease(name)}
	}
	if name, ok := strings.CutPrefix(rest, "nodes/"); ok {
		if address, ok := unescapeName(name); ok {
			return ParsedKey{Kind: KindNode, Address: address}
		}
	}
	if name, ok := strings.CutPrefix(rest, "nodes-accused/"); ok {
		if address, accuser, ok := unescapeNames(name); ok {
			return ParsedKey{Kind: KindAccusation, Address: address, Accuser: accuser}
		}
	}
	if name, ok := strings.CutPrefix(rest, "nodes-silent/"); ok {
		if address, watcher, ok := unescapeNames(name); ok {
			return ParsedKey{Kind: KindSilence, Address: address, Watcher: watcher}
		}
	}
	if name, ok := strings.CutPrefix(rest, "nodes-drain/"); ok {
		if address, ok := unescapeName(name); ok {
			return ParsedKey{Kind: KindDrain, Address: address}
		}
	}
	if name, ok := strings.CutPrefix(rest, "shards/released/"); ok {
		if address, ok := unescapeName(name); ok {
			return ParsedKey{Kind: KindReleased, Address: address}
		}
	}
	return ParsedKey{}
}

// unescapeName accepts only the spelling of url.PathEscape, so that every name has exactly one key.
func unescapeName(s string) (string, bool) {
	name, err := url.PathUnescape(s)
	return name, err == nil && name != "" && url.PathEscape(name) == s
}

// unescapeNames is unescapeName for two names with a slash between them.
func unescapeNames(s string) (first, second string, ok bool) {
	a, b, _ := strings.Cut(s, "/")
	first, ok1 := unescapeName(a)
	second, ok2 := unescapeName(b)
	return first, second, ok1 && ok2
}

// parseLease accepts only the spelling %x of a positive lease id.
func parseLease(s string) int64 {
	id, err := strconv.ParseInt(s, 16, 64)
	if err != nil || id <= 0 || strconv.FormatInt(id, 16) != s {
		return 0
	}
	return id
}
