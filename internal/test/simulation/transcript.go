package simulation

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// transcript is a readable record of a run. A failed run is repeated with one. It is safe for concurrent use.
type transcript struct {
	w  *world
	on bool

	mu    sync.Mutex
	lines []string
}

// addLine records an event of no particular process.
func (t *transcript) addLine(format string, args ...any) { t.appendLine("", format, args...) }

// addProcessLine records an event of a process.
func (t *transcript) addProcessLine(p *process, format string, args ...any) {
	if !t.on {
		return
	}
	who := p.id
	if p.dead.Load() {
		who += " (dead)"
	}
	t.appendLine(who, format, args...)
}

func (t *transcript) appendLine(who, format string, args ...any) {
	if !t.on {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf("%12s  %-14s %s", t.w.now().Round(time.Microsecond), who,
		fmt.Sprintf(format, args...)))
}

// addTruth records the content of etcd.
func (t *transcript) addTruth() {
	for _, kv := range t.w.etcd.Keys("") {
		t.addLine("etcd has %s = %s on lease %x, created at %d, written at %d", kv.Key, kv.Value, kv.Lease, kv.CreateRevision,
			kv.ModRevision)
	}
}

// String returns the whole transcript.
func (t *transcript) String() string { return strings.Join(t.lines, "\n") + "\n" }
