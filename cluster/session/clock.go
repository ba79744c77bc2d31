package session

import (
	"time"

	"github.com/goverse/goverse/cluster/internal/deadline"
)

// epoch anchors the monotonic clock. It is never changed.
var epoch = time.Now()

func now() deadline.Instant {
	t := time.Now()
	return deadline.Instant{Mono: int64(t.Sub(epoch)), Wall: t.UnixNano()}
}
