package simulation

import (
	"slices"
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/suspicion"
)

// detector stands for crashdetector.Detector: it watches others, and answers for its
// own member.
type detector struct {
	p        *process
	cases    []*watched
	removed  map[string]int // by instance: how often it was removed here
	watchers []*stream      // those of others that stand, to this process
	choosing bool
	answers  answers
}

const (
	watchers      = 2
	dialTimeout   = 2 * time.Second
	briefWatch    = time.Second
	accuseTimeout = 2 * time.Second
	noticed       = time.Millisecond // how soon a closed socket is noticed, at most
)

var settings = suspicion.Settings{Confirmations: 3, Grace: grace, Rest: time.Second}

// poke is Detector.lookAgain.
func (d *detector) poke() {
	if !d.choosing {
		d.choosing = true
		d.p.soon(d.choose)
	}
}

// published is what the subscriptions of the detector and its cases do.
func (d *detector) published(before, now *state.Snapshot) {
	if before == nil || !slices.EqualFunc(before.Members, now.Members, func(a, b *state.Member) bool {
		return a == b || a.Address == b.Address && a.Incarnation == b.Incarnation && a.InstanceID == b.InstanceID
	}) {
		d.poke()
	}
	if len(now.Accusations) > 0 || before != nil && len(before.Accusations) > 0 {
		d.answers.poke(d)
	}
	for _, w := range d.cases {
		w.published(now)
	}
}

// choose is Detector.choose.
func (d *detector) choose() {
	d.choosing = false
	s := d.p.mirror.snapshot
	if !d.p.host.roles.detect || d.p.leaving.detector {
		return
	}
	counts := func(m *state.Member) bool {
		w := d.of(m.Address)
		return w == nil || w.incarnation != m.Incarnation || w.c.Counts()
	}
	want := suspicion.Targets(s, d.p.self(), watchers, counts)
	for _, m := range want {
		switch w := d.of(m.Address); {
		case w == nil:
			d.cases = append(d.cases, newWatched(d, m))
		case w.incarnation != m.Incarnation:
			w.drop()
		}
	}
	for _, w := range slices.Clone(d.cases) {
		if !slices.ContainsFunc(want, func(m *state.Member) bool { return m.Address == w.address }) {
			w.drop()
		}
	}
}

func (d *detector) of(address string) *watched {
	for _, w := range d.cases {
		if w.address == address {
			return w
		}
	}
	return nil
}

// stop is Detector.Stop.
func (d *detector) stop() {
	for _, w := range slices.Clone(d.cases) {
		w.end()
	}
}

// closed is what happens to the streams of a process that died: its kernel closes
// them, or the host is gone and nobody hears of it.
func (d *detector) closed(withHost bool) {
	for _, w := range d.cases {
		if w.stream != nil {
			w.stream.end(suspicion.Broke, true, withHost)
		}
	}
	for _, s := range slices.Clone(d.watchers) {
		s.end(suspicion.Broke, false, withHost)
	}
}
