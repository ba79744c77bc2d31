package schedule

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Transcript is a readable record of a run. It is safe for concurrent use.
type Transcript struct {
	on    bool
	began time.Time

	mu   sync.Mutex
	text strings.Builder
}

// On reports whether lines are recorded. A failed run is repeated with a transcript.
func (t *Transcript) On() bool { return t.on }

// Addf records an event of a subject, such as a process; "" for no particular one.
func (t *Transcript) Addf(subject, format string, args ...any) {
	if !t.on {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(&t.text, "%12s  %-14s %s\n", time.Since(t.began).Round(time.Microsecond), subject,
		fmt.Sprintf(format, args...))
}

// String returns the whole transcript.
func (t *Transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
