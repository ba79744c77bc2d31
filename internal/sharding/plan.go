package sharding

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goverse/goverse/cluster/shard"
)

// ErrBadInput is wrapped by the errors of [Plan]: what it was given does not
// fit together.
var ErrBadInput = errors.New("cannot plan the shards")

// Member is one that lives.
type Member struct {
	Owner
	// Weight is its share of the shards relative to others; 0 and less is 1,
	// and more than [MaxWeight] is that.
	Weight int
	// Excluded members get nothing and are drained: they are on their way out,
	// or not meant to own shards.
	Excluded bool
}

// MaxWeight is the greatest weight that counts.
const MaxWeight = 1 << 20

// Mode is how much a plan may move.
type Mode int

const (
	// Repair moves only what must move: shards without an owner, of owners that
	// are gone, and of excluded members. They go to the one that is furthest below
	// its quota.
	Repair Mode = iota
	// Rebalance also moves what it takes to give each member its quota, and no more.
	Rebalance
)

// Input is what [Plan] decides by.
type Input struct {
	// Generation is the next map's, greater than the current map's.
	Generation int64
	// Shards is the cluster's number of shards, and the current map's.
	Shards int
	// Current is nil if there is no map yet.
	Current *Map
	// Members are all that live, in any order, nobody twice, seen no earlier
	// than Current was. An address that is empty or no UTF-8 does not fit into
	// a map: such a member is passed over, as is one whose incarnation is not
	// positive.
	Members []Member
	// Done reports whether an open move of the current map is done; nil if none
	// is. Moves from members that are gone are done anyway, it is not asked.
	Done func(Move) bool
	Mode Mode
}

// Result is what [Plan] decided. If nothing is to move, Map is Input.Current
// itself, also when moves are done that it still has: that alone is not worth
// a write.
type Result struct {
	Map *Map
	// Assigned are shards that had no owner alive, Drained those that leave an
	// excluded member, Rebalanced those that move for an even load only.
	Assigned, Drained, Rebalanced int
}

// Moved is how many shards get another owner. Nothing changed if it is 0.
func (r Result) Moved() int { return r.Assigned + r.Drained + r.Rebalanced }

// Plan makes the next map. The same input gives the same result everywhere,
// whatever the order of the members.
//
// A member's quota is its share by weight, rounded down or up; among the ways
// to round, the one that moves fewest, and of those the one that rounds up who
// comes first by address and incarnation. A shard whose move is open stays
// where it is, unless its owner is gone. It stays even on an excluded member:
// that may serve already, its move done since the caller looked. It counts as
// load of its owner. Who has more such shards than its share keeps just them,
// and the others share the rest: the level up to which members are filled
// sinks, and with it all quotas, until the shards suffice. Who has shards above
// its quota that can move loses those that it got last.
//
// The shard of an owner that is gone is assigned without a move, for nobody
// is to be waited for; if its own move was open, the new owner inherits that.
// The shard of an owner that lives moves from it since Generation. Every shard
// given in this plan has Generation as its epoch, all others keep theirs.
//
// Without a member that is not excluded nothing changes: excluded members keep
// what they have, and the shards of owners that are gone go on naming them,
// and whom they waited for, until somebody can take them.
//
// Errors match [ErrBadInput].
func Plan(in Input) (Result, error) {
	members, err := in.check()
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrBadInput, err)
	}
	d := newDraft(in, members)
	if len(d.takers) == 0 {
		return Result{Map: in.Current}, nil
	}
	quotas := d.quotas()
	if in.Mode == Rebalance {
		d.rebalance(quotas)
	}
	result := Result{
		Map:        in.Current,
		Assigned:   d.count[assigned],
		Drained:    d.count[drained],
		Rebalanced: d.count[rebalanced],
	}
	if result.Moved() > 0 {
		result.Map = d.place(deal(d.missing(quotas), result.Moved()))
	}
	return result, nil
}

// check returns the members in order.
func (in Input) check() ([]Member, error) {
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
	members := slices.DeleteFunc(slices.Clone(in.Members), func(m Member) bool { return !m.canOwn() })
	slices.SortFunc(members, func(a, b Member) int { return a.Compare(b.Owner) })
	for i := range members {
		if i > 0 && members[i].Owner == members[i-1].Owner {
			return nil, fmt.Errorf("member %q at incarnation %d is there twice", members[i].Address, members[i].Incarnation)
		}
		members[i].Weight = min(max(members[i].Weight, 1), MaxWeight)
	}
	return members, nil
}
