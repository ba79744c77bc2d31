package schedule

import (
	"fmt"
	"time"
)

// notef records a fault of a link in the transcript; nil stands for etcd.
func (w *World) notef(l *Link, format string, args ...any) {
	subject := "etcd"
	if l != nil {
		subject = l.Name
	}
	w.Log.Addf(subject, "FAULT "+format, args...)
}

// changeFor changes a link's state for d, and then changes it back.
func (l *Link) changeFor(d time.Duration, what string, begin, end func(*LinkState)) {
	w := l.World
	w.notef(l, "%s for %v", what, d)
	l.Change(begin)
	w.EndAfter(d, func() {
		s := l.State() // messages that are under way still take their time
		w.markHindered(l, w.Now()+2*s.Slow+s.Busy)
		w.notef(l, "no longer: %s", what)
		l.Change(end)
	})
}

// CutOff cuts the connection to etcd for d. Messages wait and arrive afterwards. Some watches break at once.
func (l *Link) CutOff(d time.Duration) {
	if w, c := l.World, l.Conn(); c != nil && w.OneIn(3) { // the client's keepalive notices
		w.After(w.Between(0, d), c.BreakWatches)
	}
	l.changeFor(d, "cut off from etcd", func(s *LinkState) { s.CutOff = true }, func(s *LinkState) { s.CutOff = false })
}

// LoseMessages loses requests, answers, or both for d.
func (l *Link) LoseMessages(d time.Duration, requests, answers bool) {
	l.changeFor(d, fmt.Sprintf("requests (%t) or answers (%t) of etcd lost", requests, answers),
		func(s *LinkState) { s.NoRequests, s.NoAnswers = requests, answers },
		func(s *LinkState) { s.NoRequests, s.NoAnswers = false, false })
}

// SlowDown delays each message to and from etcd by up to most for d.
func (l *Link) SlowDown(d, most time.Duration) {
	l.changeFor(d, fmt.Sprintf("messages to and from etcd delayed by up to %v", most),
		func(s *LinkState) { s.Slow = most },
		func(s *LinkState) { s.Slow = 0 })
}

// KeepBusy delays the host's goroutines by up to most for d.
func (l *Link) KeepBusy(d, most time.Duration) {
	l.changeFor(d, fmt.Sprintf("machine busy, by up to %v", most), func(s *LinkState) { s.Busy = most },
		func(s *LinkState) { s.Busy = 0 })
}

// FreezeWatch stops the deliveries of watches for d.
func (l *Link) FreezeWatch(d time.Duration) {
	l.changeFor(d, "watch frozen", func(s *LinkState) { s.Frozen = true }, func(s *LinkState) { s.Frozen = false })
}

// BreakWatch breaks the streams of the watches, which the client then reopens.
func (l *Link) BreakWatch() {
	if c := l.Conn(); c != nil {
		l.World.notef(l, "watch broken")
		c.BreakWatches()
	}
}

// EndWatch lets etcd end the watches with an error.
func (l *Link) EndWatch() {
	if c := l.Conn(); c != nil {
		l.World.notef(l, "watch ended by etcd")
		c.AbortWatches()
	}
}

// Deny makes etcd's access control refuse requests that concern keys with a prefix, for d. It then calls allowed.
func (l *Link) Deny(d time.Duration, prefix string, allowed func()) {
	w := l.World
	w.notef(l, "%s denied for %v", prefix, d)
	l.Change(func(s *LinkState) { s.Denied = prefix })
	w.EndAfter(d, func() {
		w.notef(l, "no longer: %s denied", prefix)
		l.Change(func(s *LinkState) { s.Denied = "" })
		allowed()
	})
}

// Compact compacts etcd's history.
func (w *World) Compact() {
	w.notef(nil, "compaction")
	w.Etcd.Compact()
}

// EtcdDown reports whether StopEtcd is in effect.
func (w *World) EtcdDown() bool { return w.down.Load() }

// EtcdWell reports whether etcd runs with all its members.
func (w *World) EtcdWell() bool { return !w.down.Load() && w.sick.Load() == 0 }

// StopEtcd stops etcd for d. No lease expires meanwhile, and each has a whole TTL afterwards.
func (w *World) StopEtcd(d time.Duration) {
	if w.down.Swap(true) {
		return
	}
	w.notef(nil, "down for %v", d)
	w.Etcd.SetDown(true)
	w.EndAfter(d, func() {
		w.notef(nil, "up again")
		w.down.Store(false)
		w.markHindered(nil, w.Now())
		w.Etcd.SetDown(false)
	})
}

// FillSpace makes etcd refuse requests that take space, for d.
func (w *World) FillSpace(d time.Duration) {
	w.notef(nil, "no space for %v", d)
	w.Etcd.SetNoSpace(true)
	w.EndAfter(d, func() { w.Etcd.SetNoSpace(false) })
}

// EtcdLeader returns the member that leads etcd, or a random one if none does.
func (w *World) EtcdLeader() int {
	if l := w.Etcd.Leader(); l >= 0 {
		return l
	}
	return w.Rand.IntN(w.Members)
}

// AnyMember draws a member of etcd: the leader, except in one of n cases.
func (w *World) AnyMember(n int) int {
	if w.OneIn(n) {
		return w.Rand.IntN(w.Members)
	}
	return w.EtcdLeader()
}

// StopMember stops a member of etcd for d. When it continues, it answers the requests that arrived meanwhile before
// it learns that another member leads.
func (w *World) StopMember(member int, d time.Duration) {
	w.breakMember(member, d, "stopped", func(on bool) { w.Etcd.SetStopped(member, on) })
}

// CutMember cuts a member of etcd off from the others for d.
func (w *World) CutMember(member int, d time.Duration) {
	w.breakMember(member, d, "cut off from the others", func(on bool) { w.Etcd.SetCut(member, on) })
}

// breakMember applies a fault to one of several members of etcd for d. An only member is stopped.
func (w *World) breakMember(member int, d time.Duration, what string, set func(on bool)) {
	if w.Members == 1 {
		w.StopEtcd(d)
		return
	}
	w.notef(nil, "member %d %s for %v", member, what, d)
	w.sick.Add(1)
	set(true)
	w.EndAfter(d, func() {
		w.notef(nil, "member %d no longer %s", member, what)
		set(false)
		w.sick.Add(-1)
		w.markHindered(nil, w.Now()+w.RequestTimeout) // requests to it may still be waiting
	})
}

// Stutter stops a member of etcd for first, and again for second once it has run for between.
func (w *World) Stutter(member int, first, between, second time.Duration) {
	w.StopMember(member, first)
	w.After(first+between, func() {
		if !w.IsHealed() && !w.EtcdDown() {
			w.StopMember(member, second)
		}
	})
}

// MoveLead moves etcd's leadership to a random member.
func (w *World) MoveLead() {
	to := w.Rand.IntN(w.Members)
	w.notef(nil, "leadership moves to member %d", to)
	w.Etcd.Transfer(to)
}
