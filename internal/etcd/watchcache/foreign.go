package watchcache

import (
	"errors"
	"slices"

	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
)

// maxForeignReported limits the foreign keys that a mirror names in the log in its lifetime.
const maxForeignReported = 10

// reportForeign logs, once for each key, that a key in the cluster's range was not written by Goverse or cannot
// be read. Of the keys of the original goverse it logs one. The mirror ignores all such keys.
func (m *Mirror) reportForeign(before, now *state.Snapshot) {
	if len(now.Foreign) == 0 || before != nil && len(before.Foreign) > 0 && &before.Foreign[0] == &now.Foreign[0] {
		return
	}
	for _, f := range now.Foreign {
		if errors.Is(f.Err, state.ErrOriginalGoverse) {
			if !m.originalFound {
				m.log.Warn("the original goverse uses this prefix; give one of the two clusters another one (--prefix, "+
					"Config.EtcdPrefix)", "key", f.Key)
			}
			m.originalFound = true
			continue
		}
		if before != nil && slices.ContainsFunc(before.Foreign, func(b state.ForeignKey) bool { return b.Key == f.Key }) ||
			m.foreignReported >= maxForeignReported {
			continue
		}
		m.foreignReported++
		from := "another program or a newer version of Goverse wrote; delete it if nothing uses it"
		if errors.Is(f.Err, format.ErrFormat) {
			from = "a newer release of Goverse wrote" // the error has the remedy
		}
		m.log.Warn("ignoring a key in the cluster's range that "+from, "key", f.Key, "error", logtext.OneLine(f.Err))
	}
}
