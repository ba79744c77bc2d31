package simulation

import "time"

// lane carries the messages of a stream in one direction, as TCP does: in order, and a message that is lost is sent
// again. While the network drops the messages, or the receiver stands still, they wait. All of it is guarded by w.Mu.
//
//	send ──► underway ──(its time has come, and the network carries it)──► arrived ──(the receiver runs)──► received
type lane struct {
	from, to *process
	underway []message
	arrived  []message // in the receiver's kernel
	last     time.Duration
	closed   bool          // it carries nothing any more
	dropped  time.Duration // since when the network drops its messages; -1 if it does not
	waits    bool          // for the network, or for the receiver to continue
}

// message is a message in a lane.
type message struct {
	at      time.Duration // when it arrives if nothing holds it up
	receive func()        // called with w.Mu held, when the receiver reads it
}

func newLane(from, to *process) *lane { return &lane{from: from, to: to, dropped: -1} }

// send sends a message behind all earlier ones.
func (l *lane) send(receive func()) {
	if l.closed || l.from.dead.Load() {
		return
	}
	w := l.from.w
	l.last = max(l.last, w.Now()+l.from.host.drawHop(l.to.host))
	l.underway = append(l.underway, message{l.last, receive})
	if !l.from.host.sends(l.to.host) {
		l.awaitNetwork()
	}
	w.After(l.last-w.Now(), l.deliver)
}

// deliver delivers the messages whose time has come.
func (l *lane) deliver() {
	for len(l.underway) > 0 && l.underway[0].at <= l.from.w.Now() && l.dropped < 0 && !l.closed {
		if !l.from.host.sends(l.to.host) {
			l.awaitNetwork()
			return
		}
		l.arrived = append(l.arrived, l.underway[0])
		l.underway = l.underway[1:]
	}
	for len(l.arrived) > 0 && !l.closed && !l.to.dead.Load() {
		if l.to.host.standsStill() {
			l.await()
			return
		}
		next := l.arrived[0]
		l.arrived = l.arrived[1:]
		next.receive()
	}
}

func (l *lane) awaitNetwork() {
	if l.dropped < 0 {
		l.dropped = l.from.w.Now()
	}
	l.await()
}

// await registers the lane for the end of what it waits for.
func (l *lane) await() {
	if f := &l.from.w.faults; !l.waits {
		l.waits, f.waitingLanes = true, append(f.waitingLanes, l)
	}
}

// maxResend limits the time after which TCP sends a message again that was lost in a short outage.
const maxResend = 200 * time.Millisecond

// resendMessages continues the lanes whose way is free again. Messages that the network dropped are sent again after a
// time that grows with the outage.
func (w *world) resendMessages() {
	waiting := w.faults.waitingLanes
	w.faults.waitingLanes = nil
	for _, l := range waiting {
		l.waits = false
		switch {
		case l.closed:
		case l.dropped >= 0 && !l.from.host.sends(l.to.host):
			l.await()
		case l.dropped >= 0:
			least := w.Now() + l.from.host.drawHop(l.to.host)
			if !w.OneIn(3) {
				least += w.Between(0, max(maxResend, (w.Now()-l.dropped)/2))
			}
			l.dropped, l.last = -1, max(l.last, least)
			for i := range l.underway {
				m := &l.underway[i]
				m.at = max(m.at, least)
				w.After(m.at-w.Now(), l.deliver)
			}
		}
		w.After(0, l.deliver) // what has arrived waits only for the receiver
	}
}

// close drops all messages.
func (l *lane) close() { l.closed, l.underway, l.arrived = true, nil, nil }
