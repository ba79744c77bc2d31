package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/test/schedule"
)

func TestHoleHeartbeatsLost(t *testing.T) {
	runHoles(t, func() hole {
		x := hole{stays(func(w *world, a, b *host) {
			w.cutWay(a, b, 40*time.Second)
			w.throughout(begins, 49*time.Second, a.leads, "a does not lead any more")
		}), func(t *testing.T, n *schedule.Counts) {
			notRemoved(t, n)
			count(t, n, SilenceRefuted, 1)
			require.LessOrEqual(t, n.Of(SilenceAccused), 14, "they do not leave each other alone after refutations")
		}}
		x.lasts = 50 * time.Second
		return x
	})
}

// TestHoleNothingArrives lets a send, while nothing reaches it. Its watcher's acknowledgements prove nothing, so they
// must not put off the removal.
func TestHoleNothingArrives(t *testing.T) {
	runHoles(t, func() hole {
		return hole{script{steps: func(w *world) {
			a, b := w.hosts[0], w.hosts[1]
			first := int64(0)
			w.at(begins, func() {
				first = a.incarnation()
				w.cutWay(b, a, 6*time.Second)
				a.link.CutOff(6 * time.Second)
			})
			w.at(begins+holeTimeout, func() {
				w.expect(!w.isMember(a, first), "a was not removed")
				w.expect(b.leads(), "b does not lead")
			})
		}}, func(t *testing.T, n *schedule.Counts) { require.Equal(t, 1, n.Of(SilentLivingRemoved)) }}
	})
}

func TestHoleAcknowledgementsLost(t *testing.T) {
	runHoles(t, func() hole {
		return hole{stays(func(w *world, a, b *host) {
			w.cutWay(b, a, 8*time.Second)
			w.throughout(begins, 19*time.Second, a.leads, "a does not lead any more")
		}), func(t *testing.T, n *schedule.Counts) {
			notRemoved(t, n)
			count(t, n, ProofRead, 10)
		}}
	})
}

func TestHoleClocksDrift(t *testing.T) {
	for name, rates := range map[string][2]int64{"accused slow": {-largestDrift, largestDrift},
		"accused fast": {largestDrift, -largestDrift}} {
		for what, silence := range map[string]func(w *world, a *host){
			"stands still":            func(w *world, a *host) { w.pauseFor(a, 4*time.Second) },
			"stands still for 2.68 s": func(w *world, a *host) { w.pauseFor(a, 2680*time.Millisecond) },
			"cut off":                 func(w *world, a *host) { w.isolate(a, 5*time.Second) },
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				runHoles(t, func() hole {
					return hole{script{prepare: func(w *world) {
						w.drift = largestDrift
						for i, h := range w.hosts {
							h.clocks.Store(&clocks{rate: rates[i], frozen: -1, suspended: -1})
						}
					}, steps: func(w *world) {
						w.at(begins, func() { silence(w, w.hosts[0]) })
						w.at(19*time.Second, func() { w.expect(w.hosts[0].isValid(), "a is no member again") })
					}}, func(t *testing.T, n *schedule.Counts) { count(t, n, SilenceAccused, 1) }}
				})
			})
		}
	}
}

func TestHoleViewLate(t *testing.T) {
	runHoles(t, func() hole {
		return hole{stays(func(w *world, a, b *host) {
			a.link.FreezeWatch(6 * time.Second)
			w.cutBoth(a, b, 5*time.Second)
			w.throughout(begins, 19*time.Second, a.leads, "a does not lead any more")
		}), func(t *testing.T, n *schedule.Counts) {
			notRemoved(t, n)
			count(t, n, SilenceRefuted, 1)
		}}
	})
}

// TestHoleStaleMemberOfEtcd has a use a member of etcd that is cut off from the others. Its linearizable reads fail
// there, so a proves nothing, and must not claim anything when b removes it.
func TestHoleStaleMemberOfEtcd(t *testing.T) {
	runHoles(t, func() hole {
		return hole{script{members: 3, steps: func(w *world) {
			a, b := w.hosts[0], w.hosts[1]
			a.link.Member, b.link.Member = 1, 0
			first := int64(0)
			w.at(begins-3*time.Second, func() { w.Etcd.Transfer(0) })
			w.at(begins, func() {
				first = a.incarnation()
				w.CutMember(1, 8*time.Second)
				w.cutBoth(a, b, 8*time.Second)
			})
			w.at(begins+holeTimeout+500*time.Millisecond, func() {
				w.expect(!w.isMember(a, first), "a was not removed")
				w.expect(b.leads(), "b does not lead")
			})
		}}, func(t *testing.T, n *schedule.Counts) { require.Equal(t, 1, n.Of(SilentLivingRemoved)) }}
	})
}

// TestHoleHostLostWithItsMemberOfEtcd loses a host that carries a member of etcd, and possibly etcd's leader.
func TestHoleHostLostWithItsMemberOfEtcd(t *testing.T) {
	for name, leader := range map[string]int{"follower": 0, "leader": 1} {
		t.Run(name, func(t *testing.T) {
			runHoles(t, func() hole {
				return hole{script{hosts: 3, members: 3, steps: func(w *world) {
					a := w.hosts[0]
					for i, h := range w.hosts {
						h.link.Member = (i + 1) % 3
					}
					first := int64(0)
					w.at(begins-3*time.Second, func() { w.Etcd.Transfer(leader) })
					w.at(begins, func() {
						first = a.incarnation()
						w.isolate(a, 9*time.Second)
						w.StopMember(1, 9*time.Second)
					})
					w.at(begins+8*time.Second, func() {
						w.expect(!w.isMember(a, first), "a was not removed")
						w.expect(w.hosts[1].leads() || w.hosts[2].leads(), "no other one leads")
					})
				}}, func(t *testing.T, n *schedule.Counts) { count(t, n, SilentLivingRemoved, 1) }}
			})
		})
	}
}

func TestHoleAllWatchersSilent(t *testing.T) {
	runHoles(t, func() hole {
		s := stays(func(w *world, a, _ *host) {
			for _, h := range w.hosts[1:] {
				w.pauseFor(h, 2*time.Second)
			}
			w.throughout(begins, 19*time.Second, a.leads, "a does not lead any more")
		})
		s.hosts = 3
		return hole{s, notRemoved}
	})
}

// TestHoleMostMembersSilent stops five of eight members. Their watchers hold off while several stand accused, and
// nobody relies on its session when it is removed.
func TestHoleMostMembersSilent(t *testing.T) {
	runHoles(t, func() hole {
		return hole{script{hosts: 8, lasts: 30 * time.Second, steps: func(w *world) {
			w.at(begins, func() {
				for _, h := range w.hosts[3:] {
					w.pauseFor(h, 6*time.Second)
				}
			})
			w.throughout(begins, 29*time.Second, w.hosts[0].leads, "a does not lead any more")
			w.at(29*time.Second, func() {
				for _, h := range w.hosts {
					w.expect(h.isValid(), "%s is no member again", h.address)
				}
			})
		}}, func(t *testing.T, n *schedule.Counts) { count(t, n, SilenceAccused, 1) }}
	})
}

// beatLog is a [heartbeat.Armer] that remembers the last heartbeat of each stream.
type beatLog struct {
	heartbeat.Armer
	w    *world
	last map[uint64]heartbeat.Beat
}

func (l *beatLog) NextBeat(stream uint64, instance string) (heartbeat.Beat, time.Duration) {
	b, next := l.Armer.NextBeat(stream, instance)
	l.w.Mu.Lock()
	defer l.w.Mu.Unlock()
	if b.Arms() {
		l.last[stream] = b
	}
	return b, next
}

// TestHoleHeartbeatOfAnOldStream has d watch c until b joins, and again when b is gone. A delayed heartbeat of the
// first stream reaches d after its goodbye, and after the second stream has armed it anew.
func TestHoleHeartbeatOfAnOldStream(t *testing.T) {
	runHoles(t, func() hole {
		return hole{script{hosts: 4, lasts: 30 * time.Second, starts: map[int]time.Duration{1: 8 * time.Second},
			steps: func(w *world) {
				b, c, d := w.hosts[1], w.hosts[2], w.hosts[3]
				var old *watchStream
				var log *beatLog
				w.at(begins, func() {
					log = &beatLog{c.process.armer, w, map[uint64]heartbeat.Beat{}}
					c.process.armer = log
					old = c.streamFrom(d)
					w.expect(old != nil, "d does not watch c")
				})
				repeatOld := func() {
					beat := log.last[old.number]
					w.expect(beat.Arms(), "c has not armed d")
					w.wg.Go(func() {
						if old.heard(beat) {
							w.Fail("d acknowledges a heartbeat of an arming that it has released")
						}
					})
				}
				w.at(12*time.Second, func() {
					w.expect(c.streamFrom(d) == nil, "d watches c still")
					repeatOld()
				})
				w.at(13*time.Second, func() { b.process.killProcess(false) })
				w.at(17*time.Second, func() {
					again := c.streamFrom(d)
					w.expect(again != nil && again != old && log.last[again.number].Arms(), "c has not armed d anew")
					repeatOld()
				})
				w.throughout(begins, 29*time.Second, c.isValid, "c is not valid")
			}}, notRemoved}
	})
}

// streamFrom returns the stream by which a host watches another one, or nil.
func (h *host) streamFrom(watcher *host) *watchStream {
	for _, s := range h.process.node.watchers {
		if s.from.host == watcher && s.proved && !s.goodbye {
			return s
		}
	}
	return nil
}

// TestHoleGoodbyeLost has d watch c until b joins. Its goodbye is lost, so c cannot know that d accuses it no more. It
// lives on reads until d is gone.
func TestHoleGoodbyeLost(t *testing.T) {
	runHoles(t, func() hole {
		return hole{script{hosts: 4, lasts: 40 * time.Second, starts: map[int]time.Duration{1: 8 * time.Second},
			steps: func(w *world) {
				c, d := w.hosts[2], w.hosts[3]
				w.at(7500*time.Millisecond, func() { w.cutWay(d, c, 20*time.Second) })
				w.throughout(begins, 39*time.Second, c.isValid, "c is not valid")
			}}, func(t *testing.T, n *schedule.Counts) {
			notRemoved(t, n)
			count(t, n, ProofRead, 10)
		}}
	})
}

// TestHoleHeartbeatForAFormerIncarnation has b register anew. A heartbeat for its former incarnation arrives late,
// and a does not learn of the new one. So a has armed nobody, its lease decides, and b must not accuse it.
func TestHoleHeartbeatForAFormerIncarnation(t *testing.T) {
	runHoles(t, func() hole {
		return hole{stays(func(w *world, a, b *host) {
			w.cutWay(a, b, time.Second)
			w.when(b, momentSent, requestRegister, func() { a.link.FreezeWatch(12 * time.Second) })
			w.at(6900*time.Millisecond, func() { w.revokeLease(byOutOfBand, int64(b.process.session().ID())) })
			w.at(7800*time.Millisecond, func() {
				w.expect(b.isValid(), "b has not registered anew")
				w.cutBoth(a, b, 8*time.Second)
			})
		}), notRemoved}
	})
}

// TestHoleRingChangesWhileAccusing has b join when d, the only node that can accuse c of its silence, is about to. From
// then on b watches c in place of d, and c, which stands still, arms b no more. D must not leave.
func TestHoleRingChangesWhileAccusing(t *testing.T) {
	for _, joins := range []time.Duration{6300, 6900, 7300, 8200} {
		t.Run(fmt.Sprintf("after %d ms", joins-6000), func(t *testing.T) {
			runHoles(t, func() hole {
				return hole{script{hosts: 4, lasts: 30 * time.Second, starts: map[int]time.Duration{1: joins * time.Millisecond},
					prepare: func(w *world) { w.hosts[0].roles.old = true },
					steps: func(w *world) {
						b, c := w.hosts[1], w.hosts[2]
						first := int64(0)
						w.at(begins, func() {
							first = c.incarnation()
							w.pauseFor(c, 15*time.Second)
						})
						w.at(begins+holeTimeout, func() {
							w.expect(b.isValid(), "b has not joined")
							w.expect(!w.isMember(c, first), "c was not removed")
						})
					}}, func(t *testing.T, n *schedule.Counts) { count(t, n, SilenceAccused, 1) }}
			})
		})
	}
}

// TestHoleWatchGoneWithTheHost has b's watch deliver nothing from the moment on at which a, which leads, stands still.
// So b, the next in the queue, learns of a's removal by the report of a node that watches it.
func TestHoleWatchGoneWithTheHost(t *testing.T) {
	runHoles(t, func() hole {
		return hole{script{hosts: 4, lasts: 30 * time.Second, steps: func(w *world) {
			a, b := w.hosts[0], w.hosts[1]
			w.at(begins, func() {
				w.expect(a.leads(), "a does not lead at first")
				silenceWatchOf(w, b, false)
				w.pauseFor(a, 15*time.Second)
			})
			w.at(begins+holeTimeout, func() { w.expect(b.leads(), "b does not lead") })
		}}, func(t *testing.T, n *schedule.Counts) {
			count(t, n, RemovalReported, 1)
			count(t, n, SilenceAccused, 1)
		}}
	})
}
