package shard

import (
	"errors"
	"fmt"
)

// Owner identifies the node that owns a shard. The zero Owner means that no node does.
type Owner struct {
	Address string `json:"address"`
	// Incarnation distinguishes this process from others at the same address. It is the CreateRevision of the
	// process's node key.
	Incarnation int64 `json:"incarnation"`
	// Epoch is the owner's fencing token. It is larger than that of every earlier owner of the shard.
	Epoch int64 `json:"epoch"`
}

// ErrNotOwner is matched by every [NotOwnerError].
var ErrNotOwner = errors.New("this node does not serve the shard")

// NotOwnerError reports that this node does not serve a shard, and names the owner. It matches [ErrNotOwner].
type NotOwnerError struct {
	Shard int
	// Owner is the address of the node that owns the shard, as far as this node knows. It is "" if the shard
	// has no owner, or if this node was the owner, is stopping, and does not know the next owner yet. It is
	// this node's own address while the shard is on its way here.
	Owner string
	// Stopping reports that this node owned the shard and is stopping.
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

// Is reports whether target is ErrNotOwner.
func (e *NotOwnerError) Is(target error) bool { return target == ErrNotOwner }
