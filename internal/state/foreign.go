package state

import (
	"cmp"
	"errors"
	"slices"
)

// errForeignKey is of a key that lies in the range and is not spelled as one of ours.
var errForeignKey = errors.New("it is no key of a Goverse cluster")

// Foreign is a key of the range that somebody else wrote, or a newer version.
type Foreign struct {
	Key string
	Err error // why it cannot be read
}

// note remembers that the key is foreign, or with a nil err that it is not, or not there any more.
func (s *Snapshot) note(key string, err error) {
	if err == nil && len(s.Foreign) == 0 {
		return
	}
	i, there := slices.BinarySearchFunc(s.Foreign, key, func(f Foreign, k string) int { return cmp.Compare(f.Key, k) })
	if there {
		s.Foreign = without(s.Foreign, i)
	}
	if err != nil {
		s.Foreign = with(s.Foreign, i, Foreign{Key: key, Err: err})
	}
}
