package simulation

import (
	"fmt"

	"github.com/goverse/goverse/cluster/internal/change"
)

// outsider is a program that is no node and queues with concurrency.Election, or an
// operator's etcdctl elect: it is no member, leads when it is first, and leaves, or
// dies.
func outsider(w *world, _ *host) {
	e := w.etcd
	if e.away {
		return
	}
	a := e.grant()
	l := e.lease(a.lease)
	l.ends = w.now + 1000*w.ttl // it renews
	key := w.keys.Candidate(l.id)
	if w.chance(4) {
		key = w.keys.Queue() + fmt.Sprintf("stray/%d", l.id)
	}
	w.note(nil, "an outside candidate queues on lease %x", l.id)
	e.author = cause{}
	if _, err := e.execute(nil, change.Change{Then: []change.Op{{Kind: change.Put, Key: key, Value: "outside", Lease: l.id}}}); err != nil {
		return
	}
	w.faults.last(w.between(0, 2*w.ttl), func() {
		e.author = cause{}
		if w.chance(2) {
			w.note(nil, "the outside candidate on lease %x leaves", l.id)
			_, _ = e.revoke(nil, l.id)
			return
		}
		w.note(nil, "the outside candidate on lease %x dies", l.id)
		l.ends = w.now + w.between(0, w.ttl)
		e.watchOver(l)
	})
}
