package simulation

import (
	"testing"
	"time"
)

// armUnheard cuts the network between d and c when d proves to c that it watches it. So c arms d, and d hears nothing
// of that.
func armUnheard(w *world, d, c *host, lasts time.Duration) {
	for t := begins; t < begins+500*time.Millisecond; t += 50 * time.Microsecond {
		w.at(t, func() {
			for _, s := range c.process.node.watchers {
				switch {
				case s.from.host != d || !s.isOpen:
				case !s.proved:
					w.cutWay(c, d, lasts)
				default:
					w.cutWay(d, c, lasts)
				}
			}
		})
	}
}

// TestHoleArmedWithoutKnowingIt has c arm d, which hears nothing of that. Shortly after that b joins, and watches c in
// place of d, whose goodbye c does not receive. D must say it again when the network carries it, also if it was to
// watch c for some time meanwhile, because b had died. Otherwise c counts on a watcher that acknowledges nothing.
func TestHoleArmedWithoutKnowingIt(t *testing.T) {
	for name, again := range map[string]bool{"once": false, "twice": true} {
		t.Run(name, func(t *testing.T) {
			runHoles(t, func() hole {
				return hole{script: script{hosts: 4, lasts: 40 * time.Second,
					starts: map[int]time.Duration{3: begins, 1: begins + 500*time.Millisecond},
					steps: func(w *world) {
						b, c, d := w.hosts[1], w.hosts[2], w.hosts[3]
						armUnheard(w, d, c, 24*time.Second)
						counts := func(at time.Duration, watchers int) {
							w.at(at, func() {
								armed := c.process.session().Proofs().Armed()
								w.expect(armed == watchers, "c counts on %d watchers at %v", armed, at)
							})
						}
						counts(begins+3*time.Second, 3)
						if again {
							w.at(begins+7*time.Second, func() { b.process.killProcess(false) })
							w.at(begins+10*time.Second, b.ensureStarted)
						}
						counts(begins+20*time.Second, 3)
					}}}
			})
		})
	}
}
