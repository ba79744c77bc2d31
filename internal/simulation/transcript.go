package simulation

import (
	"fmt"
	"strings"
	"time"
)

// transcript is what happened, for people. A run is repeated with one when it failed.
type transcript struct {
	w     *world
	lines []string
}

// say notes what happened to nobody in particular.
func (t *transcript) say(format string, args ...any) { t.line("", fmt.Sprintf(format, args...)) }

// of notes what a process did or met.
func (t *transcript) of(p *process, format string, args ...any) {
	who := p.id
	switch {
	case p.dead:
		who += " (dead)"
	case p.paused || p.host.suspended >= 0:
		who += " (paused)"
	}
	t.line(who, fmt.Sprintf(format, args...))
}

func (t *transcript) line(who, text string) {
	t.lines = append(t.lines, fmt.Sprintf("%12s  %-14s %s", t.w.now.Round(time.Microsecond), who, text))
}

// truth notes what etcd holds.
func (t *transcript) truth() {
	for _, kv := range t.w.etcd.keys {
		t.say("etcd has %s = %s on lease %x, created at %d, written at %d",
			kv.Key, kv.Value, kv.Lease, kv.CreateRevision, kv.ModRevision)
	}
}

// String is the whole of it.
func (t *transcript) String() string { return strings.Join(t.lines, "\n") + "\n" }
