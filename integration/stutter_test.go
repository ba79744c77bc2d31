//go:build linux

package integration

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/history"
)

var (
	stutterRounds = flag.Int("stutter.rounds", 1, "how many times etcd's leader stutters in each world")
	stutterWorlds = flag.Int("stutter.worlds", 1, "how many etcd clusters stutter side by side; more than six need "+
		"-parallel")
	stutterFirst = flag.Duration("stutter.first", 0,
		"how long it stands still first; 0 is seven tenths of the TTL. From about nine tenths on etcd revokes leases that "+
			"were renewed")
	stutterTTL = flag.Duration("stutter.ttl", 5*time.Second,
		"the sessions' TTL; with less than 10s everything is shorter by as much, etcd's election time-out too")
)

// stutter is the timing with which etcd's leader is frozen, runs for a moment, and is frozen again.
type stutter struct {
	ttl                  time.Duration
	first, awake, second time.Duration
	election             time.Duration // etcd's election timeout
}

// stutterOf returns the stutter for a TTL. At 10 s and etcd's default timing the leader is frozen for 7 s,
// which is long enough for another one to be elected and short enough for the sessions to remain valid. It then
// runs for 1.5 s, and is frozen until every deadline has passed.
func stutterOf(ttl time.Duration) stutter {
	scaled := func(d time.Duration) time.Duration { return time.Duration(float64(d) * ttl.Seconds() / 10) }
	first := *stutterFirst
	if first == 0 {
		first = scaled(7 * time.Second)
	}
	return stutter{ttl: ttl, first: first, awake: scaled(1500 * time.Millisecond), second: scaled(13 * time.Second),
		election: scaled(time.Second)}
}

// TestStutteringEtcd freezes the member that leads etcd, lets it run for a moment, and freezes it again, like a
// stuttering host or disk. A node, a process that holds a lock and a command under goversed lock reach etcd
// only through that member; others like them use the other two. None of them may lead, own a shard or hold a
// lock that another one already has.
//
// An overlap is exempt if etcd itself has revoked a lease that was renewed.
//
// The full run: -run Stuttering/etcd37 -stutter.ttl 10s -stutter.worlds 5 -stutter.rounds 20 -timeout 30m
func TestStutteringEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	require.Zero(t, *stutterTTL%time.Second, "-stutter.ttl: give whole seconds")
	if side := flag.Lookup("test.parallel").Value.String(); *stutterWorlds > 1 {
		n, err := strconv.Atoi(side)
		require.NoError(t, err)
		require.LessOrEqual(t, *stutterWorlds, n, "-stutter.worlds: give -parallel %d as well", *stutterWorlds)
	}
	require.GreaterOrEqual(t, *stutterTTL, 5*time.Second, "-stutter.ttl: less leaves etcd no time to elect another leader")
	kit.GoversedPath(t) // built first, so that no round pays for it
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		t.Parallel()
		var mu sync.Mutex
		all := newTally()
		t.Cleanup(func() { t.Logf("%v\n%v", *stutterTTL, &all) })
		for world := range *stutterWorlds {
			t.Run(fmt.Sprint(world), func(t *testing.T) {
				t.Parallel()
				w := newStutterWorld(t, flavour, stutterOf(*stutterTTL))
				for range *stutterRounds {
					w.round()
				}
				of := w.judge()
				t.Logf("%v", &of)
				mu.Lock()
				defer mu.Unlock()
				all.add(of)
				for _, v := range of.verdicts {
					if !v.OK() {
						t.Error(v)
					}
				}
			})
		}
	})
}

// tally holds the results of some rounds.
type tally struct {
	rounds   int
	samples  int
	revoked  int                        // sessions notified of the loss of their lease or key
	overlaps map[string][]time.Duration // by the kind of claim
	exempt   map[string][]time.Duration // likewise, after a revocation by etcd
	hit      map[string]int             // rounds with such an overlap
	hits     map[string]bool            // rounds of worlds with any overlap
	verdicts []history.Verdict
}

// take adds the verdict on one history of a world. what names the history's owners, and rounds holds the start
// of each round.
func (a *tally) take(world, what string, v history.Verdict, rounds []history.Instant) {
	a.verdicts = append(a.verdicts, v)
	a.samples += v.Seen.Samples
	in := map[string]map[int]time.Duration{} // the longest of each round
	for _, f := range v.FindingsOf(history.Overlap) {
		name := what + claimKind(f.Subject)
		if in[name] == nil {
			in[name] = map[int]time.Duration{}
		}
		round, _ := slices.BinarySearch(rounds, f.From)
		in[name][round] = max(in[name][round], f.Length())
		a.hits[fmt.Sprint(world, round)] = true
	}
	for name, of := range in {
		a.hit[name] += len(of)
		for _, length := range of {
			a.overlaps[name] = append(a.overlaps[name], length)
		}
	}
	for _, f := range v.Exempt {
		name := what + claimKind(f.Subject)
		a.exempt[name] = append(a.exempt[name], f.Length())
	}
}

func newTally() tally {
	return tally{overlaps: map[string][]time.Duration{}, exempt: map[string][]time.Duration{}, hit: map[string]int{},
		hits: map[string]bool{}}
}

// claimKind returns the kind of a claim, without its name or number.
func claimKind(s history.Subject) string {
	switch {
	case s == history.Leadership:
		return "leaders"
	case s.IsLock():
		return "holders of the lock"
	}
	return "owners of a shard"
}

func (a *tally) add(b tally) {
	a.rounds, a.samples, a.revoked = a.rounds+b.rounds, a.samples+b.samples, a.revoked+b.revoked
	maps.Copy(a.hits, b.hits)
	for name, lengths := range b.overlaps {
		a.overlaps[name] = append(a.overlaps[name], lengths...)
		a.hit[name] += b.hit[name]
	}
	for name, lengths := range b.exempt {
		a.exempt[name] = append(a.exempt[name], lengths...)
	}
}

func (a *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rounds, %d samples; in %d rounds two claimed the same; sessions whose lease etcd revoked: %d\n",
		a.rounds, a.samples, len(a.hits), a.revoked)
	for _, name := range subjects {
		fmt.Fprintf(&b, "  two %-34s in %d rounds; longest of each: %s\n", name, a.hit[name], lengths(a.overlaps[name]))
		if of := a.exempt[name]; len(of) > 0 {
			fmt.Fprintf(&b, "  two %-34s after a revocation by etcd, %d times: %s\n", name, len(of), lengths(of))
		}
	}
	return b.String()
}

// lengths formats the minimum, the median and the maximum of durations.
func lengths(of []time.Duration) string {
	if len(of) == 0 {
		return "none"
	}
	slices.Sort(of)
	return fmt.Sprintf("%v to %v, half of them %v or less", of[0].Round(time.Microsecond),
		of[len(of)-1].Round(time.Microsecond),
		of[(len(of)-1)/2].Round(time.Microsecond))
}
