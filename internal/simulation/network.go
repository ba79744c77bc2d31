package simulation

import (
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/txn"
)

var errTimeout = errors.New("no answer in time")

// kind is what a request is about. Faults choose by it.
type kind int

const (
	toRead kind = iota
	toGrant
	toRenew
	toCheck // the read of a renewal's round
	toRevoke
	toRegister
	toRecord
	toCampaign
	toLookAhead // the campaign's read of who queues before it
	toLeave     // deleting the own candidate's key
	toChange    // the other requests to the own election keys
	toWrite     // under a term's fence
	toAccuse
	toRemove
	toRefute
	toAsk
	toPlan   // the shard map
	toReport // what was released
	toMeasure
	kinds
)

func (k kind) String() string {
	return [...]string{"read", "grant", "renewal", "read of own keys", "revocation", "registration", "record",
		"campaign", "look ahead", "leave", "change of own keys", "guarded write", "accusation", "removal", "refutation",
		"request", "shard map", "report", "measurement"}[k]
}

// link is one host's way to etcd.
type link struct {
	noRequests, noAnswers bool          // what is lost while so
	slow                  time.Duration // how much longer each way takes, at most
	frozen                bool          // watches deliver nothing
	stillborn             bool          // the next watch delivers that it was opened, and then nothing
}

// well reports whether nothing is wrong with it.
func (l link) well() bool { return l == link{} }

// delivery is what becomes of one request.
type delivery int

const (
	arrives    delivery = iota
	neverSent           // it is lost on its way
	unanswered          // it is carried out, and the answer is lost
	late                // it is carried out long after its sender gave up
)

// delay is how long one way to etcd or back takes.
func (h *host) delay() time.Duration { return h.distance + h.hop() }

// hop is how long one way takes where nobody is far.
func (h *host) hop() time.Duration {
	d := h.w.between(100*time.Microsecond, 1500*time.Microsecond)
	if h.link.slow > 0 {
		d += h.w.between(0, h.link.slow)
	}
	return d
}

// call sends a request to etcd; then is given the answer or an error, once, at timeout
// at the latest. It stands for etcd's client with a context that ends.
func (p *process) call(k kind, timeout time.Duration, do func(e *etcd) (answer, error), then func(answer, error)) {
	w, h := p.w, p.host
	due := h.mono() + int64(timeout)
	f, lateness := w.faults.sends(p, k)
	if w.log != nil && f != arrives {
		w.log.of(p, "its %s: %s", k,
			[...]string{"", "is lost", "will not be answered", fmt.Sprint("arrives after ", lateness)}[f])
	}
	giveUp := func() {
		left := h.untilMono(due)
		h.lagged = max(h.lagged, w.now+left) // it waits in vain, and some of it waits for that
		w.queue.push(event{at: w.now + max(left, 0), p: p, due: due, do: func() { then(answer{}, errTimeout) }})
	}
	if f == neverSent || h.link.noRequests {
		giveUp()
		return
	}
	if f == late {
		giveUp()
	}
	w.after(h.delay()+lateness, func() {
		e := w.etcd
		if e.away || h.link.noRequests {
			if f != late {
				giveUp()
			}
			return
		}
		e.author = cause{p: p}
		a, err := do(e)
		if w.log != nil && (err != nil || k != toRenew && k != toCheck && k != toMeasure) {
			w.log.of(p, "etcd got its %s: %s", k, outcome(k, a, err))
		}
		w.faults.carriedOut(p, k)
		switch {
		case f == late:
			w.checks.count(CameLate)
		case f == unanswered || h.link.noAnswers:
			w.checks.count(AnswerLost)
			giveUp()
		default:
			p.answered(k, due, a, err, giveUp, then)
		}
	})
}

// change sends a change and reports what came of it.
func (p *process) change(k kind, timeout time.Duration, c txn.Txn, then func(answer, error)) {
	p.call(k, timeout, func(e *etcd) (answer, error) {
		return e.execute(p.host, c)
	}, then)
}

// answered brings the answer on its way back.
func (p *process) answered(k kind, due int64, a answer, err error, giveUp func(), then func(answer, error)) {
	w, h := p.w, p.host
	back := w.now + h.delay()
	if h.mono()+int64(back-w.now) > due {
		giveUp()
		return
	}
	w.queue.push(event{at: back, p: p, do: func() {
		if h.link.noAnswers || h.mono() > due && w.chance(2) { // who was paused may see either first
			giveUp()
			return
		}
		then(a, err)
		w.faults.gotAnswer(p, k)
	}})
}

func outcome(k kind, a answer, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case k == toRead || k == toGrant || k == toRevoke || k == toLookAhead:
		return fmt.Sprintf("at revision %d", a.revision)
	case !a.held:
		return fmt.Sprintf("at revision %d a guard does not hold", a.revision)
	}
	return fmt.Sprintf("done at revision %d", a.revision)
}
