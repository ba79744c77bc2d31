package state

import (
	"fmt"

	"github.com/goverse/goverse/internal/lifecycle"
)

// maxNameLength limits the length of names, in bytes. It is far below etcd's limit, and long enough for a path.
const maxNameLength = 512

// CheckName returns an error if a user's name for a lock, an election or an effect is not from 1 to 512 bytes
// long. Any bytes are allowed. what is the kind of the named thing, for the error.
func CheckName(what, name string) error {
	if name == "" || len(name) > maxNameLength {
		return fmt.Errorf("%w for the %s: it has %d bytes; give it from 1 to %d",
			lifecycle.ErrBadName, what, len(name), maxNameLength)
	}
	return nil
}
