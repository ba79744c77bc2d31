package sharding

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goverse/goverse/cluster/shard"
)

// ErrBadInput is wrapped by the errors of [Plan] if its input is inconsistent.
var ErrBadInput = errors.New("cannot plan the shards")

// Member is a living member.
type Member struct {
	Owner
	// Weight is the member's share of the shards relative to other members. A weight below 1 counts as 1, and
	// one above [MaxWeight] as MaxWeight.
	Weight int
	// Excluded members receive no shards and are drained: they are leaving, or are not meant to own shards.
	Excluded bool
}

// MaxWeight is the greatest weight that counts.
const MaxWeight = 1 << 20

// Mode limits the moves of a plan.
type Mode int

const (
	// Repair moves only the shards that must move: those without an owner, of owners that are gone, and of
	// excluded members. Each goes to the member that is furthest below its quota.
	Repair Mode = iota
	// Rebalance also makes the moves that give each member its quota, and no others.
	Rebalance
)

// Input is the input of [Plan].
type Input struct {
	// Generation is the generation of the next map, greater than the current map's.
	Generation int64
	// Shards is the number of shards, in the cluster and in the current map.
	Shards int
	// Current is the current map, nil if there is none yet.
	Current *Map
	// Members are all living members, in any order and without duplicates, observed no earlier than Current.
	// Members with an address that is empty or not UTF-8, or with an incarnation that is not positive, do not
	// fit into a map and are ignored.
	Members []Member
	// Done reports whether an open move of the current map is done; nil means that none is. Moves from members
	// that are gone are always done, and Done is not called for them.
	Done func(Move) bool
	Mode Mode
}

// Result is the result of [Plan]. If no shard moves, Map is Input.Current itself, even if it still has moves
// that are done: removing those alone does not justify a write.
type Result struct {
	Map *Map
	// Assigned counts the shards that had no living owner, Drained those that leave an excluded member, and
	// Rebalanced those that move only to even out the load.
	Assigned, Drained, Rebalanced int
}

// MovedShards returns the number of shards with a new owner. If it is 0, nothing has changed.
func (r Result) MovedShards() int { return r.Assigned + r.Drained + r.Rebalanced }

// Plan makes the next map. The same input gives the same result on every node, whatever the order of the
// members.
//
// A member's quota is its share by weight, rounded down or up. Of the possible roundings, Plan uses one with
// the fewest moves, and of those the one that rounds up the members that come first by address and incarnation.
//
// A shard with an open move stays where it is, unless its owner is gone. It stays even on an excluded member,
// which may serve it already because the move was done since the caller looked. It counts towards its owner's
// load. A member with more such shards than its share keeps only them, and the others share the rest: the level
// up to which members are filled sinks, and with it all quotas, until the shards suffice. A member with movable
// shards above its quota loses those that it received last.
//
// A shard of an owner that is gone is assigned without a move, because there is no owner to wait for. If the
// shard has an open move itself, the new owner inherits that. A shard of a living owner moves from it since
// Generation. Every shard assigned in this plan has Generation as its epoch; all others keep theirs.
//
// Without a member that is not excluded nothing changes. Excluded members keep their shards. Shards of owners
// that are gone keep those owners and their open moves until a member can take them.
//
// Errors match [ErrBadInput].
func Plan(in Input) (Result, error) {
	members, err := in.checkedMembers()
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrBadInput, err)
	}
	d := newDraft(in, members)
	if len(d.takers) == 0 {
		return Result{Map: in.Current}, nil
	}
	quotas := d.computeQuotas()
	if in.Mode == Rebalance {
		d.markRebalanced(quotas)
	}
	result := Result{
		Map:        in.Current,
		Assigned:   d.counts[assigned],
		Drained:    d.counts[drained],
		Rebalanced: d.counts[rebalanced],
	}
	if result.MovedShards() > 0 {
		result.Map = d.assignMoving(distribute(d.missingShards(quotas), result.MovedShards()))
	}
	return result, nil
}

// checkedMembers returns the members in order, with weights in their limits.
func (in Input) checkedMembers() ([]Member, error) {
	switch {
	case in.Shards < 1 || in.Shards > shard.MaxCount:
		return nil, fmt.Errorf("%d shards are not between 1 and %d", in.Shards, shard.MaxCount)
	case in.Generation < 1:
		return nil, fmt.Errorf("generation %d is not positive", in.Generation)
	case in.Mode != Repair && in.Mode != Rebalance:
		return nil, fmt.Errorf("there is no mode %d", in.Mode)
	case in.Current != nil && in.Current.Shards() != in.Shards:
		return nil, fmt.Errorf("the map has %d shards and not %d: start every member with the map's number",
			in.Current.Shards(), in.Shards)
	case in.Current != nil && in.Current.Generation() >= in.Generation:
		return nil, fmt.Errorf("generation %d is not after the map's %d", in.Generation, in.Current.Generation())
	}
	members := slices.DeleteFunc(slices.Clone(in.Members), func(m Member) bool { return !m.isEncodable() })
	slices.SortFunc(members, func(a, b Member) int { return a.Compare(b.Owner) })
	for i := range members {
		if i > 0 && members[i].Owner == members[i-1].Owner {
			return nil, fmt.Errorf("member %q at incarnation %d is there twice", members[i].Address, members[i].Incarnation)
		}
		members[i].Weight = min(max(members[i].Weight, 1), MaxWeight)
	}
	return members, nil
}
