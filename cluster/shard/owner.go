package shard

import (
	"errors"
	"fmt"
)

// Owner is the node that owns a shard. The zero Owner means that nobody does.
type Owner struct {
	Address string
	// Incarnation distinguishes this process from another one at the same address: the CreateRevision
	// of its node key.
	Incarnation int64
	// Epoch is the owner's fencing token: it grows with every owner of the shard.
	Epoch int64
}

// ErrNotOwner is matched by every [NotOwnerError].
var ErrNotOwner = errors.New("this node does not serve the shard")

// NotOwnerError says who owns a shard instead. It matches [ErrNotOwner].
type NotOwnerError struct {
	Shard int
	// Owner is the address of the node that owns it as far as this node knows, "" when nobody
	// does, or when it was this node, which stops, and the next one is not known yet. It may be
	// this node's own: while the shard is on its way here.
	Owner string
	// Stopping: this node owned it, and stops.
	Stopping bool
}

// Error names the shard and its owner.
func (e *NotOwnerError) Error() string {
	switch {
	case e.Stopping:
		return fmt.Sprintf("%v: shard %d was this node's, which hands it over", ErrNotOwner, e.Shard)
	case e.Owner == "":
		return fmt.Sprintf("%v: shard %d has no owner now", ErrNotOwner, e.Shard)
	}
	return fmt.Sprintf("%v: shard %d is %s's", ErrNotOwner, e.Shard, e.Owner)
}

// Is makes a NotOwnerError match ErrNotOwner.
func (e *NotOwnerError) Is(target error) bool { return target == ErrNotOwner }
