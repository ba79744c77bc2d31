package fault

import "time"

// Blackhole stops all deliveries in this direction, as a network does that drops every packet. Nothing is
// closed. Data sent from now on and the ends of connections are held back, and new connections stay silent.
// After Heal everything that was held back arrives, as with TCP's retransmission.
func (r *Relay) Blackhole(d Direction) { r.alterWays(d, func(w *way) { w.blackhole = true }) }

// Delay delays everything in this direction, including the start and the end of a connection. It does not
// reduce the throughput. 0 ends the delay.
func (r *Relay) Delay(d Direction, by time.Duration) { r.alterWays(d, func(w *way) { w.delay = by }) }

// Throttle limits the bytes per second in this direction, for all connections together. 0 ends the limit.
func (r *Relay) Throttle(d Direction, bytesPerSecond int) {
	r.alterWays(d, func(w *way) { w.rate = bytesPerSecond })
}

// alterWays changes the ways of d and wakes the deliveries that wait for a change.
func (r *Relay) alterWays(d Direction, change func(*way)) {
	ways := d.singles()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range ways {
		change(&r.lines[one].way)
		r.lines[one].freeAt = time.Time{}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// Reset sends a RST on every connection under way: with ToTarget to the target, with FromTarget to the clients.
// As in a network, an end that gets no RST is reset only when it next sends something. A connection that has
// not reached the target yet is reset as a whole. New connections work.
func (r *Relay) Reset(d Direction) {
	d.singles() // panics before anything is changed
	r.mu.Lock()
	e := r.entrance
	r.mu.Unlock()
	if e != nil {
		e.eachLink(func(l *link) { l.resetEnds(d) })
	}
}

// Refuse closes every connection and refuses new ones, as a host does after its process has ended: connecting
// fails with ECONNREFUSED. Both ends are closed despite all other faults, and data that was held back is lost.
// The port stays reserved for Heal; the package comment describes the systems without that reservation.
func (r *Relay) Refuse() {
	r.openMu.Lock()
	defer r.openMu.Unlock()
	r.shutPort()
}

// Heal ends all faults. Existing connections deliver the data that was held back, and new ones are accepted
// again at the same port. It returns an error only if the port was refusing and cannot be listened on again;
// the other faults are ended nevertheless.
func (r *Relay) Heal() error {
	r.openMu.Lock()
	defer r.openMu.Unlock()
	r.alterWays(Both, func(w *way) { *w = way{} })
	return r.openPort()
}
