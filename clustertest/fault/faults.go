package fault

import "time"

// Blackhole lets nothing through any more in this direction, as a network that drops
// every packet: nothing is closed, what is sent from now on is not delivered, nor is
// the end of a connection, and new connections stay silent. What was held back
// arrives after Heal, as TCP's retransmission would bring it.
func (r *Relay) Blackhole(d Direction) { r.alter(d, func(w *way) { w.blackhole = true }) }

// Delay makes everything arrive that much later in this direction, also the beginning
// and the end of a connection, and does not make the line thinner. 0 lifts it.
func (r *Relay) Delay(d Direction, by time.Duration) { r.alter(d, func(w *way) { w.delay = by }) }

// Throttle lets so many bytes a second through in this direction, of all connections
// together. 0 lifts it.
func (r *Relay) Throttle(d Direction, bytesPerSecond int) {
	r.alter(d, func(w *way) { w.rate = bytesPerSecond })
}

// alter changes the ways of d, and wakes those who wait for a change.
func (r *Relay) alter(d Direction, change func(*way)) {
	ways := d.ways()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range ways {
		change(&r.lines[one].way)
		r.lines[one].free = time.Time{}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// Reset sends a RST on every connection under way: in direction ToTarget to the
// target, FromTarget to the clients. An end that is not notified finds out as it would in
// a network: it is reset when it sends something the next time. A connection that has
// not reached the target yet is reset as a whole. New connections work.
func (r *Relay) Reset(d Direction) {
	d.ways() // panics before anything happens
	r.mu.Lock()
	e := r.entrance
	r.mu.Unlock()
	if e != nil {
		e.each(func(l *link) { l.reset(d) })
	}
}

// Refuse closes every connection and refuses new ones, as a host does whose process
// ended: connecting fails with ECONNREFUSED. Both ends are notified, whatever else is wrong
// with the lines, and what was held back is lost. The port stays reserved for Heal (see
// the package comment for systems other than Unix).
func (r *Relay) Refuse() {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.shut()
}

// Heal lifts all faults. Connections that are left go on with what was held back, and
// new ones are accepted again, at the same port. It fails only if the port was
// refusing and cannot be listened at; the other faults are lifted then too.
func (r *Relay) Heal() error {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.alter(Both, func(w *way) { *w = way{} })
	return r.open()
}
