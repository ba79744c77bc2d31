//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package history

import "time"

func now() Instant { return Instant(time.Now().UnixNano()) }
