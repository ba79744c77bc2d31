package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/test/schedule"
)

// faultKind is one kind of fault, or of request by a user.
type faultKind = schedule.Kind[func(w *world, h *host)]

func kind(weight int, name string, begin func(w *world, h *host)) faultKind {
	return faultKind{Weight: weight, Name: name, Begin: begin}
}

// allFaults returns all kinds of faults.
func allFaults() []faultKind {
	return []faultKind{
		kind(8, "one request lost, unanswered or late", loseRequest),
		kind(4, "two requests lost, unanswered or late", func(w *world, h *host) { loseRequest(w, h); loseRequest(w, h) }),
		kind(6, schedule.CutOff, func(w *world, h *host) { h.link.CutOff(w.drawDuration(h)) }),
		kind(4, "requests or answers of etcd lost", loseMessages),
		kind(3, "messages to and from etcd delayed", func(w *world, h *host) {
			h.link.SlowDown(w.drawDuration(h), schedule.Pick(w.Rand, 20*time.Millisecond, 200*time.Millisecond, w.ttl/5))
		}),
		kind(5, schedule.WatchFrozen, func(w *world, h *host) { h.link.FreezeWatch(w.drawDuration(h)) }),
		kind(4, "watch silent", silenceWatch),
		kind(3, schedule.WatchEnded, func(_ *world, h *host) { h.link.EndWatch() }),
		kind(3, schedule.WatchBroken, func(_ *world, h *host) { h.link.BreakWatch() }),
		kind(2, schedule.Compaction, func(w *world, _ *host) { w.Compact() }),
		kind(3, "compaction behind a frozen watch", func(w *world, h *host) {
			d := w.drawDuration(h)
			h.link.FreezeWatch(d)
			w.After(d*9/10, w.Compact)
		}),
		kind(6, schedule.ProcessPaused, pauseProcess),
		kind(2, "process paused during a renewal", pauseInRenewal),
		kind(2, "process paused during the renewal after the loss of a watcher", pauseInSuspicion),
		kind(2, "machine suspended", suspendMachine),
		kind(2, "wall clock stepped", stepWall),
		kind(2, "machine busy", func(w *world, h *host) {
			h.link.KeepBusy(w.drawDuration(h), schedule.Pick(w.Rand, 5*time.Millisecond, 100*time.Millisecond, time.Second))
		}),
		kind(6, schedule.ProcessKilled, crashProcess),
		kind(2, "host lost", loseHost),
		kind(4, schedule.ProcessStopped, stopAndStart),
		kind(2, "process stopped and cut off from etcd", func(w *world, h *host) {
			stopAndStart(w, h)
			w.After(w.Between(0, 20*time.Millisecond), func() { h.link.CutOff(w.drawDuration(h)) })
		}),
		kind(5, "leader resigns", func(_ *world, h *host) {
			if h.process != nil {
				h.process.resign()
			}
		}),
		kind(3, "leader resigns, and its requests are late", func(w *world, h *host) {
			w.delayNext(h, requestLeaveQueue)
			w.delayNext(h, requestElectionChange)
			if h.process != nil {
				h.process.resign()
			}
		}),
		kind(5, "leader asked to resign", requestResignation),
		kind(3, "leader asked to resign, and the requests to do so are late", func(w *world, h *host) {
			for range 1 + w.Rand.IntN(2) {
				w.delayNext(nil, requestLeaveQueue)
			}
			requestResignation(w, h)
			if l := w.leadingProcess(); l != nil && w.OneIn(2) { // the request is void then
				w.After(w.Between(0, 20*time.Millisecond), func() { crashProcess(w, l.host) })
			}
		}),
		kind(3, "etcd elects another leader", electEtcd),
		kind(3, "etcd down", func(w *world, h *host) { w.StopEtcd(w.drawDuration(h)) }),
		kind(3, schedule.MemberStopped, func(w *world, h *host) { w.StopMember(w.AnyMember(3), w.drawDuration(h)) }),
		kind(3, "etcd's leader stutters", func(w *world, _ *host) {
			w.Stutter(w.EtcdLeader(), w.Between(time.Second, 2*w.ttl), w.Between(0, 100*time.Millisecond),
				w.Between(0, 2*w.ttl))
		}),
		kind(3, "etcd member cut off from the others", func(w *world, h *host) {
			w.CutMember(w.AnyMember(2), w.drawDuration(h))
		}),
		kind(2, "etcd's leadership moved", func(w *world, _ *host) { w.MoveLead() }),
		kind(4, "renewed leases revoked by etcd", revokeEarly),
		kind(5, "keys changed out of band", changeKeysOutOfBand),
		kind(4, "keys changed out of band while the watch is frozen", func(w *world, h *host) {
			h.link.FreezeWatch(w.Between(0, w.ttl))
			changeKeysOutOfBand(w, h)
		}),
		kind(5, "shard map or report changed out of band", changeShardsOutOfBand),
		kind(3, "shard map or report changed out of band while the watch is frozen", func(w *world, h *host) {
			h.link.FreezeWatch(w.Between(0, w.ttl))
			changeShardsOutOfBand(w, h)
		}),
		kind(3, "leader paused while it plans", pauseInPlanning),
		kind(3, "messages from one host to another dropped", cutHosts),
		kind(2, "messages between nodes delayed", slowNetwork),
		kind(2, "shard map or report late", func(w *world, h *host) {
			w.delayNext(nil, schedule.Pick(w.Rand, requestPlan, requestReport))
			if w.OneIn(2) {
				stopAndStart(w, h)
			}
		}),
		kind(6, "candidacy denied", denyCandidates),
		kind(3, "outside candidate", addOutsider),
		kind(2, "outside candidate while all candidacies are denied", func(w *world, h *host) {
			d := w.Between(w.ttl, 2*w.ttl)
			for _, x := range w.hosts {
				x.denyCandidacy(d)
			}
			w.After(w.Between(0, d), func() {
				if !w.IsHealed() {
					addOutsider(w, h)
				}
			})
		}),
		kind(2, "outside candidate while the watch is frozen", func(w *world, h *host) {
			h.link.FreezeWatch(w.Between(0, w.ttl))
			addOutsider(w, h)
		}),
		kind(4, schedule.PortRefuses, refuseConnections),
		kind(3, "connections of watchers broken", breakStreams),
		kind(2, "host unreachable", silenceHost),
		kind(3, "delayed, then cut off from etcd", slowThenCut),
		kind(3, "refusing and cut off from etcd", func(w *world, h *host) {
			d := w.drawDuration(h)
			w.refuseConnectionsFor(h, d)
			h.link.CutOff(d)
		}),
		kind(2, "refusing while the others' watches are frozen", func(w *world, h *host) {
			d := w.drawDuration(h)
			w.refuseConnectionsFor(h, d)
			for _, x := range w.hosts {
				if x != h {
					x.link.FreezeWatch(min(d, w.Between(0, w.ttl/3)))
				}
			}
		}),
		kind(2, "refusing and cut off from etcd during a renewal", func(w *world, h *host) {
			w.faults.addTrigger(faultTrigger{moment: momentExecuted + faultMoment(requestRoundRead), host: h, begin: func() {
				w.refuseConnectionsFor(h, w.ttl)
				h.link.LoseMessages(w.drawDuration(h), true, false)
			}})
		}),
		kind(2, "refusing and paused", func(w *world, h *host) {
			d := w.drawDuration(h)
			w.refuseConnectionsFor(h, d)
			w.pauseFor(h, d)
		}),
	}
}

// drawDuration draws the duration of a fault: a moment, a long time, or a time that ends around an instant that
// matters to the host.
func (w *world) drawDuration(h *host) time.Duration {
	switch w.Rand.IntN(6) {
	case 0:
		return w.Between(0, 50*time.Millisecond)
	case 1, 2:
		return w.Between(0, w.ttl/2)
	case 3:
		return w.Between(w.ttl/2, 2*w.ttl)
	}
	if h.process == nil || h.process.session() == nil {
		return w.Between(0, w.ttl)
	}
	s := h.process.session()
	around := s.TimeLeft() // until its deadline
	if w.OneIn(2) {
		for _, l := range w.Etcd.Leases() {
			if l.ID == int64(s.ID()) {
				around = time.Until(l.Ends)
			}
		}
	}
	return max(around+w.Between(-20*time.Millisecond, 20*time.Millisecond), 0)
}

// noteFault writes to the transcript a fault of a host, or with nil a fault of no particular host.
func (w *world) noteFault(h *host, format string, args ...any) {
	switch {
	case h == nil:
		w.Log.Addf("", "FAULT "+format, args...)
	case h.process != nil:
		h.process.logf("FAULT "+format, args...)
	default:
		w.Log.Addf(h.address, "FAULT "+format, args...)
	}
}
