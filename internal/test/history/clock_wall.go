//go:build !(linux || darwin || freebsd || openbsd || dragonfly)

package history

import "time"

func now() Instant { return Instant(time.Now().UnixNano()) }
