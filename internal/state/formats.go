package state

import (
	"errors"
	"fmt"

	"github.com/goverse/goverse/internal/state/format"
)

// ClusterFormat is the format that a cluster may use.
type ClusterFormat struct {
	Format int
	// DecidedBy is the member with the smallest newest format, of several the one that registered first; nil
	// without members.
	DecidedBy *Member
}

// ReadFormats returns the formats that the member reads.
func (m *Member) ReadFormats() format.Range { return m.Formats.OrFirst() }

// Release returns the release of Goverse that the member runs, "" if it does not publish it.
func (m *Member) Release() string { return m.Goverse }

// Format returns the format that the cluster may use: the newest one that all its members read. The member that runs
// the oldest release decides.
func (s *Snapshot) Format() ClusterFormat { return formatOf(s.Members) }

func formatOf(members []*Member) ClusterFormat {
	f := ClusterFormat{Format: format.Newest}
	for _, m := range members {
		newest := m.ReadFormats().Newest
		if f.DecidedBy == nil || newest < f.Format ||
			newest == f.Format && m.Incarnation < f.DecidedBy.Incarnation {
			f = ClusterFormat{newest, m}
		}
	}
	return f
}

// CheckFormat returns a [format.Error] if a process that reads the formats own cannot be a member at address: the shard
// map or a member record is in another format, or the other members use one that it does not read.
func (s *Snapshot) CheckFormat(own format.Range, address string) error {
	own = own.OrFirst()
	if s.ShardMap != nil {
		if wrong := formatError(s.Keys.ShardMap(), s.ShardMap.Err); wrong != nil {
			return wrong
		}
	}
	for _, f := range s.Foreign {
		if s.Keys.Parse(f.Key).Kind != KindNode {
			continue
		}
		if wrong := formatError(f.Key, f.Err); wrong != nil {
			return wrong
		}
	}
	var others []*Member
	for _, m := range s.Members {
		if m.Address != address {
			others = append(others, m)
		}
	}
	used := formatOf(others)
	if used.DecidedBy == nil {
		return nil
	}
	return own.Check(fmt.Sprintf("the cluster under %s, by its member %s,", s.Keys.Prefix(), used.DecidedBy.Address),
		used.Format, used.DecidedBy.Release())
}

// formatError returns the [format.Error] in err with the key as its subject, nil if there is none.
func formatError(key string, err error) error {
	found, ok := errors.AsType[*format.Error](err)
	if !ok {
		return nil
	}
	wrong := *found
	wrong.Subject = "the value of " + key
	return &wrong
}
