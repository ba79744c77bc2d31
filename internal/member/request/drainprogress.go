package request

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardview"
	"github.com/goverse/goverse/internal/state"
)

// ErrRefused is returned when the request could never be fulfilled.
var ErrRefused = errors.New("refused")

// maxNamed limits the nodes that an error names.
const maxNamed = 8

// drainRequest tracks one request about a node's shards. It is not safe for concurrent use.
type drainRequest struct {
	member       *state.Member
	undo         bool
	shardsBefore int // shards that it had at the time of the request
	shardsLeft   int // shards not released yet, of those assigned then or later
	answered     bool
	stuck        bool // no other member can take them any more
}

// newDrainRequest returns the request about the member at address. It returns an error if, by s, the request
// could never be fulfilled.
func newDrainRequest(s *state.Snapshot, address string, undo bool) (*drainRequest, error) {
	m := s.Member(address)
	switch {
	case m == nil:
		return nil, fmt.Errorf("%w: %s; there are %s", shardview.ErrUnknownNode, address, listAddresses(s.Members))
	case m.Stopping:
		return nil, fmt.Errorf("%w: %s is stopping, and hands its shards over by itself", ErrRefused, address)
	case m.Shards == 0:
		return nil, fmt.Errorf("%w: %s runs without sharding, and has no shards to give up", ErrRefused, address)
	}
	w := &drainRequest{member: m, undo: undo}
	if undo {
		return w, nil
	}
	if _, err := shardview.MapOf(s); err != nil {
		return nil, fmt.Errorf("%w; goversed shards plan shows what it waits for", err)
	}
	w.shardsLeft, w.answered = countUnreleased(s, m), m.Draining
	w.shardsBefore = w.shardsLeft
	switch {
	case w.shardsLeft == 0: // nothing to wait for
	case !otherCanTake(s, m, shardCount(s)):
		return nil, fmt.Errorf("%w: no other node could take the shards of %s: start one, or end the drain of one with "+
			"goversed drain --undo", ErrRefused, address)
	case s.Planner() == nil:
		return nil, fmt.Errorf("%w: there is no leader, so no node distributes the shards of %s again: "+
			"goversed status shows the queue", ErrRefused, address)
	}
	return w, nil
}

// applySnapshot applies s and reports whether the request is fulfilled.
func (w *drainRequest) applySnapshot(s *state.Snapshot) (done bool, err error) {
	m := s.Member(w.member.Address)
	switch {
	case m == nil || m.Incarnation != w.member.Incarnation:
		return false, fmt.Errorf("%s: %w; goversed nodes shows whether it is there and drains",
			w.member.Address, ErrMemberGone)
	case w.undo && m.Stopping:
		return false, fmt.Errorf("%w: %s is stopping", ErrRefused, m.Address)
	case w.undo:
		return !m.Draining, nil
	case w.answered && !m.Draining:
		return false, fmt.Errorf("%s: %w: it may have shards again", m.Address, ErrUndone)
	}
	if _, err := shardview.MapOf(s); err != nil && !errors.Is(err, shardview.ErrNoMap) {
		return false, err // the map may assign shards to m
	}
	w.answered = m.Draining
	w.shardsLeft, w.stuck = countUnreleased(s, m), !otherCanTake(s, m, shardCount(s))
	return w.answered && w.shardsLeft == 0, nil
}

// countUnreleased counts the shards that the map assigns to m, and those that others can have only when m releases
// them.
func countUnreleased(s *state.Snapshot, m *state.Member) int {
	me := sharding.Owner{Address: m.Address, Incarnation: m.Incarnation}
	n := 0
	for shard := range shardCount(s) {
		owner, _ := s.ShardMap.Owner(shard)
		move, open := s.ShardMap.Move(shard)
		if owner == me || open && move.From == me && !s.MoveDone(move) {
			n++
		}
	}
	return n
}

// shardCount returns the number of shards in the map, or 0 without one.
func shardCount(s *state.Snapshot) int {
	m, err := shardview.MapOf(s)
	if err != nil {
		return 0
	}
	return m.Shards()
}

// otherCanTake reports whether another member works with that many shards and may have some. It cannot consider labels
// that the planner excludes, because they are not in etcd.
func otherCanTake(s *state.Snapshot, m *state.Member, shards int) bool {
	for _, other := range s.Members {
		if other != m && !other.Draining && other.Shards == shards {
			return true
		}
	}
	return false
}

// listAddresses returns a list of addresses.
func listAddresses(members []*state.Member) string {
	var out []string
	for i, m := range members {
		if i == maxNamed {
			out = append(out, fmt.Sprintf("%d more, which goversed nodes shows", len(members)-i))
			break
		}
		out = append(out, m.Address)
	}
	return strings.Join(out, ", ")
}
