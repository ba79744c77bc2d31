package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/schedule"
)

// Each test is one hole that a draft of the protocol of silence had, as a schedule. In most of them the member a leads
// and b alone watches it: a stands still, or b does not hear of it, from 6 s on. The silence time-out is 3.5 s, so b
// accuses a after 1.15 s and removes it after 2.68 s, and a's proofs last for 2.625 s and 1.31 s.

const (
	begins      = 6 * time.Second
	holeTimeout = 3500 * time.Millisecond
)

// hole is a schedule of which more is expected than that it keeps every promise.
type hole struct {
	script
	expect func(t *testing.T, n *schedule.Counts)
}

// runHoles runs a hole with some seeds.
func runHoles(t *testing.T, make func() hole) {
	t.Helper()
	for seed := uint64(1); seed <= 5; seed++ {
		x := make()
		x.seed, x.silence = seed, holeTimeout
		if x.hosts == 0 {
			x.hosts = 2
		}
		if x.ttl == 0 {
			x.ttl = 10 * time.Second
		}
		if x.lasts == 0 {
			x.lasts = 20 * time.Second
		}
		runScript(t, x.script, x.expect)
	}
}

// stays lets a script run in which the first host's member must stay registered until the end, whatever happens.
func stays(steps func(w *world, a, b *host)) script {
	return script{steps: func(w *world) {
		a, b := w.hosts[0], w.hosts[1]
		first := int64(0)
		w.at(begins-time.Millisecond, func() {
			first = a.incarnation()
			w.expect(a.leads(), "a does not lead at first")
		})
		w.throughout(begins, 19*time.Second, func() bool { return w.isMember(a, first) }, "a was removed")
		w.at(begins, func() { steps(w, a, b) })
	}}
}

// count requires that an event happened at least so often.
func count(t *testing.T, n *schedule.Counts, event string, least int) {
	t.Helper()
	require.GreaterOrEqual(t, n.Of(event), least, event)
}

// notRemoved requires that no member was removed for silence.
func notRemoved(t *testing.T, n *schedule.Counts) {
	t.Helper()
	require.Zero(t, n.Of(SilentLivingRemoved)+n.Of(SilentDeadRemoved))
}

func TestHoleWatcherPausedBeforeItsAccusation(t *testing.T) {
	runHoles(t, func() hole {
		return hole{stays(func(w *world, a, b *host) {
			w.when(b, momentSent, requestAccuseSilent, func() { w.pauseFor(b, 3*time.Second) })
			w.pauseFor(a, 1500*time.Millisecond)
			w.throughout(8*time.Second, 19*time.Second, a.leads, "a does not lead")
		}), func(t *testing.T, n *schedule.Counts) {
			notRemoved(t, n)
			count(t, n, SilenceAccused, 1)
		}}
	})
}

func TestHoleWatcherPausedBeforeItsRemoval(t *testing.T) {
	for name, m := range map[string]func(w *world, b *host, do func()){
		"while it waits": func(w *world, b *host, do func()) {
			w.when(b, momentAnswered, requestAccuseSilent, func() { w.After(time.Second, do) })
		},
		"when it has sent it": func(w *world, b *host, do func()) {
			w.lose(b, requestRemoveSilent, schedule.Late, 2*time.Second)
			w.when(b, momentSent, requestRemoveSilent, do)
		},
	} {
		t.Run(name, func(t *testing.T) {
			runHoles(t, func() hole {
				return hole{stays(func(w *world, a, b *host) {
					m(w, b, func() { w.pauseFor(b, 2300*time.Millisecond) })
					w.pauseFor(a, 3500*time.Millisecond)
					w.throughout(10*time.Second, 19*time.Second, a.isValid, "a is not valid again")
				}), func(t *testing.T, n *schedule.Counts) {
					notRemoved(t, n)
					count(t, n, SilenceAccused, 1)
					count(t, n, SilenceRefuted, 1)
				}}
			})
		})
	}
}

func TestHoleWatcherDiesAfterItsAccusation(t *testing.T) {
	runHoles(t, func() hole {
		return hole{stays(func(w *world, a, b *host) {
			w.when(b, momentAnswered, requestAccuseSilent, func() { b.process.killProcess(false) })
			w.pauseFor(a, 2*time.Second)
			w.throughout(9*time.Second, 19*time.Second, a.isValid, "a is not valid")
		}), func(t *testing.T, n *schedule.Counts) {
			notRemoved(t, n)
			count(t, n, SilenceAccused, 1)
		}}
	})
}

func TestHoleWatcherRegistersAnewAfterItsAccusation(t *testing.T) {
	runHoles(t, func() hole {
		return hole{stays(func(w *world, a, b *host) {
			w.when(b, momentAnswered, requestAccuseSilent, func() {
				w.revokeLease(byOutOfBand, int64(b.process.session().ID()))
			})
			w.pauseFor(a, 5*time.Second)
		}), func(t *testing.T, n *schedule.Counts) {
			notRemoved(t, n)
			require.Equal(t, 1, n.Of(SilenceAccused))
		}}
	})
}

// TestHoleWatcherRemovedWhileItRemoves has the removal by c, which watches a, arrive when b has removed c, and a has
// continued. The other watcher of a is of an old version.
func TestHoleWatcherRemovedWhileItRemoves(t *testing.T) {
	runHoles(t, func() hole {
		s := stays(func(w *world, a, _ *host) {
			c := w.hosts[2]
			w.lose(c, requestRemoveSilent, schedule.Late, 5*time.Second)
			w.when(c, momentSent, requestRemoveSilent, func() { w.pauseFor(c, 8*time.Second) })
			w.pauseFor(a, 3500*time.Millisecond)
			first := c.incarnation()
			w.at(14*time.Second, func() { w.expect(!w.isMember(c, first), "c was not removed") })
		})
		s.hosts = 4
		s.prepare = func(w *world) { w.hosts[3].roles.old = true }
		return hole{s, func(t *testing.T, n *schedule.Counts) {
			require.Equal(t, 1, n.Of(SilentLivingRemoved))
			count(t, n, string(schedule.Late), 1)
		}}
	})
}

func TestHoleAnswersLost(t *testing.T) {
	apart := func(w *world, a, b *host) { w.cutWay(a, b, 5*time.Second) }
	pausedFor := func(d time.Duration) func(w *world, a, b *host) {
		return func(w *world, a, _ *host) { w.pauseFor(a, d) }
	}
	for _, c := range []struct {
		name     string
		of       int // the host that sends the request
		k        requestKind
		outcomes []schedule.Outcome
		silence  func(w *world, a, b *host)
		happens  string
	}{
		{"accusation's", 1, requestAccuseSilent, []schedule.Outcome{schedule.Unanswered}, apart, SilenceRefuted},
		{"accusation's, and the accused stands still", 1, requestAccuseSilent, []schedule.Outcome{schedule.Unanswered},
			pausedFor(2500 * time.Millisecond), SilenceAccused},
		{"accusation's, twice", 1, requestAccuseSilent, []schedule.Outcome{schedule.Late, schedule.Unanswered}, apart,
			SilenceAccused},
		{"refutation's", 0, requestRefuteAll, []schedule.Outcome{schedule.Unanswered}, apart, SilenceRefuted},
		{"refutation's, and the next one is late", 0, requestRefuteAll,
			[]schedule.Outcome{schedule.Unanswered, schedule.Late}, apart, SilenceRefuted},
		{"refutation's, and it is late", 0, requestRefuteAll, []schedule.Outcome{schedule.Late}, apart, SilenceRefuted},
		{"accusation's, which is lost", 1, requestAccuseSilent, []schedule.Outcome{schedule.Lost, schedule.Lost}, apart,
			SilenceRefuted},
		{"withdrawal's", 1, requestWithdrawSilent, []schedule.Outcome{schedule.Unanswered},
			pausedFor(1700 * time.Millisecond), SilenceAccused},
		{"withdrawal's, which is late", 1, requestWithdrawSilent, []schedule.Outcome{schedule.Late},
			pausedFor(1700 * time.Millisecond), SilenceAccused},
		{"of reads", 0, requestProofRead, []schedule.Outcome{schedule.Unanswered, schedule.Lost, schedule.Late}, apart,
			ProofRead},
	} {
		t.Run(c.name, func(t *testing.T) {
			runHoles(t, func() hole {
				return hole{stays(func(w *world, a, b *host) {
					for _, o := range c.outcomes {
						w.lose(w.hosts[c.of], c.k, o, 3*time.Second)
					}
					c.silence(w, a, b)
					w.throughout(16*time.Second, 19*time.Second, a.isValid, "a is not valid")
				}), func(t *testing.T, n *schedule.Counts) {
					notRemoved(t, n)
					count(t, n, c.happens, 1)
				}}
			})
		})
	}
}

// TestHoleRefutationsLost loses all of a's refutations, while its reads are answered. It must not rely on them when b
// removes it.
func TestHoleRefutationsLost(t *testing.T) {
	for _, outcome := range []schedule.Outcome{schedule.Lost, schedule.Unanswered, schedule.Denied} {
		t.Run(string(outcome), func(t *testing.T) {
			runHoles(t, func() hole {
				return hole{script{steps: func(w *world) {
					a, b := w.hosts[0], w.hosts[1]
					w.at(begins, func() {
						if outcome == schedule.Denied {
							a.link.Denies = func(r any, _ string) bool { return w.kindOf(r) == requestRefuteAll }
							a.link.Deny(5*time.Second, w.silentKeys(), func() {})
						} else {
							for range 20 {
								w.lose(a, requestRefuteAll, outcome, 0)
							}
						}
						w.cutBoth(a, b, 5*time.Second)
					})
					w.at(19*time.Second, func() { w.expect(a.isValid(), "a is no member again") })
				}}, func(t *testing.T, n *schedule.Counts) {
					require.Equal(t, outcome != schedule.Unanswered, n.Of(SilentLivingRemoved) > 0, SilentLivingRemoved)
				}}
			})
		})
	}
}

// TestHoleAnswerOfARemovalLost has a continue just before or after it was removed. It registers anew, and b must arm
// and be armed anew.
func TestHoleAnswerOfARemovalLost(t *testing.T) {
	for _, outcome := range []schedule.Outcome{schedule.Unanswered, schedule.Late} {
		for _, d := range []time.Duration{2500, 2660, 2720, 3300, 6000} {
			t.Run(fmt.Sprintf("%s, %d ms", outcome, d), func(t *testing.T) {
				runHoles(t, func() hole {
					return hole{script{steps: func(w *world) {
						a, b := w.hosts[0], w.hosts[1]
						w.at(begins, func() {
							w.lose(b, requestRemoveSilent, outcome, 500*time.Millisecond)
							w.pauseFor(a, d*time.Millisecond)
						})
						w.throughout(18*time.Second, 19*time.Second, func() bool {
							return a.isValid() && b.isValid() && w.isMember(a, a.incarnation())
						}, "a is no member again")
					}}, func(t *testing.T, n *schedule.Counts) { count(t, n, SilenceAccused, 1) }}
				})
			})
		}
	}
}

func TestHoleAccusedStandsStillAroundATimeout(t *testing.T) {
	stops := []time.Duration{500, 1140, 1160, 1310, 1320, 1500, 2000, 2200, 2300, 2340, 2360, 2400, 2450, 2500, 2550, 2600,
		2620, 2630, 2640, 2660, 2670, 2680, 2690, 2720, 2800, 3000, 3200, 3500, 4200, 5000, 12000}
	for _, d := range stops {
		d *= time.Millisecond
		t.Run(d.String(), func(t *testing.T) {
			runHoles(t, func() hole {
				return hole{script{lasts: 30 * time.Second, steps: func(w *world) {
					a := w.hosts[0]
					first := int64(0)
					w.at(begins, func() {
						first = a.incarnation()
						w.pauseFor(a, d)
					})
					if d <= 2200*time.Millisecond { // the leader stays
						w.throughout(begins+d+500*time.Millisecond, 20*time.Second, a.leads, "a does not lead any more")
					}
					if d >= holeTimeout {
						w.at(begins+d, func() {
							w.expect(!w.isMember(a, first), "a was not removed")
							w.expect(w.hosts[1].leads(), "b does not lead")
						})
					}
					w.at(29*time.Second, func() { w.expect(a.isValid() && w.isMember(a, a.incarnation()), "a is no member") })
				}}, nil}
			})
		})
	}
}

// TestHoleStandsStillAgain stops the same process twelve times. It is removed each time: its watcher does not leave it
// alone because it lived after the last removal.
func TestHoleStandsStillAgain(t *testing.T) {
	const stops = 12
	runHoles(t, func() hole {
		return hole{script{lasts: begins + stops*10*time.Second, steps: func(w *world) {
			a := w.hosts[0]
			for i := range stops {
				w.at(begins+time.Duration(i)*10*time.Second, func() {
					incarnation := a.incarnation()
					w.pauseFor(a, 4*time.Second)
					w.After(holeTimeout, func() { w.expect(!w.isMember(a, incarnation), "a is a member after stop %d", i+1) })
				})
			}
		}}, func(t *testing.T, n *schedule.Counts) { count(t, n, SilentLivingRemoved, stops) }}
	})
}
