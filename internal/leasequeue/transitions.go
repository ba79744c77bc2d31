package leasequeue

import "github.com/goverse/goverse/internal/lifecycle"

// entered: the key was created; it came first, or behind others.
func (x *Entry) entered(create int64, ahead bool) {
	x.mu.Lock()
	x.create = create
	unwanted := x.unwanted
	if x.phase == asked {
		x.phase = waiting
		x.notify() // the watch may have reported the key before its token was known here
	}
	x.mu.Unlock()
	switch {
	case unwanted:
		x.Abandon()
	case ahead:
		x.begin()
	default:
		x.behind()
	}
}

// begin makes an entry first that is, or has it wait until it may be. It reports whether it may.
func (x *Entry) begin() (granted bool) {
	granted, others := x.grant()
	if !granted && !others {
		x.behind()
	}
	return granted
}

// behind has an entry wait, unless it does not want to.
func (x *Entry) behind() {
	if x.Try {
		x.end(ErrTaken)
		x.Abandon()
		return
	}
	x.run.wait(x)
}

// looked: it was, and nobody counts on being first still; or somebody may, and the entry does not wait.
func (x *Entry) looked(clear bool) {
	x.mu.Lock()
	x.clearing, x.cleared = false, clear
	wanted := x.phase == waiting && !x.unwanted
	x.mu.Unlock()
	switch {
	case !wanted:
	case !clear:
		x.behind()
	case x.begin():
		x.run.unwait(x)
	}
}

// grant makes the entry first, if the session may be acted on, and nobody can count on being first
// whose key is gone. If it does not, others see to the entry when it is settled or unwanted, or while it
// is being looked whether anybody can; else it waits.
func (x *Entry) grant() (granted, others bool) {
	s := x.run.s
	period := s.Period()
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.phase != waiting || x.unwanted || x.clearing:
		return false, true
	case !period.Valid() || s.Suspected():
		return false, false
	case !x.cleared && !x.run.fresh():
		x.clearing = true
		x.run.clear(x)
		return false, true
	}
	x.phase, x.period = first, period
	x.settle()
	return true, false
}

// end settles an entry that is not first.
func (x *Entry) end(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase == first || x.phase == over {
		return
	}
	x.phase, x.err = over, err
	x.settle()
}

func (x *Entry) settle() {
	if x.settled != nil {
		close(x.settled)
		x.settled = nil
	}
	x.notify()
}

func (x *Entry) notify() {
	if x.Notify != nil {
		x.Notify()
	}
}

// vanished: the key is gone, and nobody here deleted it. One who was first leaves by himself,
// and the key stays his until then.
func (x *Entry) vanished() {
	x.end(ErrAgain)
	x.mu.Lock()
	forget := false
	switch {
	case x.leaving:
	case x.phase == over:
		x.leaving, forget = true, true
	default:
		x.revoke(ErrKeyGone)
	}
	x.mu.Unlock()
	if forget {
		x.run.forget(x)
		x.deleted(nil)
	}
}

// expel ends what is done in a place that is first, and leaves all others: nobody may go on.
func (x *Entry) expel() {
	x.end(lifecycle.ErrStopped)
	x.mu.Lock()
	held := x.phase == first
	x.revoke(lifecycle.ErrStopped)
	x.mu.Unlock()
	if !held {
		x.Abandon()
	}
}

// stands reports whether the key should be there.
func (x *Entry) stands() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.create != 0 && !x.leaving && x.err == nil
}

// deleted: as it was to be, or etcd refuses it. It reports whether anything is known of it for the
// first time.
func (x *Entry) deleted(refused error) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refused = refused
	if x.gone == nil {
		x.gone = make(chan struct{})
	}
	select {
	case <-x.gone:
		return false
	default:
		close(x.gone)
		return true
	}
}
