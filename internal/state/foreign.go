package state

import (
	"cmp"
	"errors"
	"slices"
)

// errForeignKey is the error of a key in the range that is not spelled like a key of Goverse.
var errForeignKey = errors.New("it is no key of a Goverse cluster")

// ForeignKey is a key of the range that another program or a newer version of Goverse wrote.
type ForeignKey struct {
	Key string
	Err error // reason why it cannot be read
}

// noteForeign records that the key is foreign for the reason err, or, if err is nil, that it is not or no longer
// exists.
func (s *Snapshot) noteForeign(key string, err error) {
	if err == nil && len(s.Foreign) == 0 {
		return
	}
	i, there := slices.BinarySearchFunc(s.Foreign, key, func(f ForeignKey, k string) int { return cmp.Compare(f.Key, k) })
	if there {
		s.Foreign = removeAt(s.Foreign, i)
	}
	if err != nil {
		s.Foreign = insertAt(s.Foreign, i, ForeignKey{Key: key, Err: err})
	}
}
