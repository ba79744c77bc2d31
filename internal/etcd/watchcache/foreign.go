package watchcache

import (
	"slices"

	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/state"
)

// mostForeign is how many foreign keys are named in the log, in the life of a mirror.
const mostForeign = 10

// reportForeign says once of each key in the cluster's range that it is none of ours, or cannot be read. The mirror
// has passed it over.
func (m *Mirror) reportForeign(before, now *state.Snapshot) {
	if len(now.Foreign) == 0 || before != nil && len(before.Foreign) > 0 && &before.Foreign[0] == &now.Foreign[0] {
		return
	}
	for _, f := range now.Foreign {
		if before != nil && slices.ContainsFunc(before.Foreign, func(b state.Foreign) bool { return b.Key == f.Key }) ||
			m.foreign >= mostForeign {
			continue
		}
		m.foreign++
		m.log.Warn("a key among the cluster's is passed over: somebody else wrote it, or a newer version of Goverse; "+
			"delete it if nothing uses it", "key", f.Key, "error", logtext.OneLine(f.Err))
	}
}
