//go:build unix

package integration

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/chaos"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/history"
)

var (
	chaosSeed = flag.Uint64("chaos.seed", 1, "which faults come in which order")
	chaosFor  = flag.Duration("chaos.for", 0, "how long to go on with new worlds, of some decks with one of each kind of "+
		"fault; each kind of world once at least, and 0 is none")
	chaosSilence = flag.Duration("chaos.silence", 3500*time.Millisecond,
		"CrashDetection.SilenceTimeout of the nodes; 0 leaves out the faults that silence nodes")
	chaosByLease = flag.Bool("chaos.by-lease", true,
		"let every other world of TestChaos have no silence time-out, and a short TTL")
	chaosApart = flag.Bool("chaos.revoked-apart", false, "tell overlaps apart that come of leases which etcd itself "+
		"revoked though they were renewed, instead of failing by them; where each node reaches all members, those of "+
		"locks alone")
	chaosHostile = flag.Bool("chaos.hostile", false, "have an outsider attack every node beside the faults")
	chaosEtcd    = flag.Int("chaos.etcd", 3, "the number of etcd's members: 1 or 3")
	chaosKeep    = flag.String("chaos.keep", "", "directory for the transcript of a run that failed; default: a "+
		"temporary one")
)

// silenceTTL is the TTL of sessions, in seconds, in worlds with a silence time-out. It is longer than that, so a silent
// node is removed before its lease ends.
const silenceTTL = 5

// TestChaos puts whole clusters through random faults and judges the histories they record; see package chaos.
// The full run: -run Chaos -chaos.for 40m -timeout 60m. It runs alone, because a busy machine masks the effects
// of faults.
func TestChaos(t *testing.T) {
	if *chaosFor == 0 {
		t.Skip("takes three minutes: give -chaos.for")
	}
	var worlds []chaos.Config
	add := func(change func(*chaos.Config)) {
		cfg := chaosConfig(t)
		cfg.RevokedApart, cfg.Decks = *chaosApart, 1
		change(&cfg)
		worlds = append(worlds, cfg)
	}
	if *chaosSilence > 0 {
		add(func(cfg *chaos.Config) { cfg.TTL, cfg.SilenceTimeout = silenceTTL, *chaosSilence })
	}
	if *chaosByLease || len(worlds) == 0 {
		add(func(*chaos.Config) {})
	}
	runChaos(t, worlds...)
}

// membersTTL is the TTL of sessions in the worlds about etcd's members, and membersElection etcd's election
// timeout there. Their ratio is that of the defaults. With a shorter TTL, a leader of etcd that resumes would
// find hardly any session still valid, because the election of another leader extends each lease and adds an
// election timeout.
const (
	membersTTL      = 5
	membersElection = 500 * time.Millisecond
)

// TestChaosMembers stops, stutters, isolates and kills members of etcd, usually the one that leads, with nodes
// that are bound to one member each. A world is one deck and takes more than a minute. The full run: -run
// ChaosMembers -chaos.for 20m -timeout 60m.
func TestChaosMembers(t *testing.T) {
	if *chaosFor == 0 {
		t.Skip("takes more than a minute: give -chaos.for")
	}
	cfg := chaosConfig(t)
	cfg.TTL, cfg.Bound, cfg.Members, cfg.RevokedApart, cfg.Decks = membersTTL, true, true, *chaosApart, 1
	cfg.SilenceTimeout = *chaosSilence
	cfg.Etcd = func(dir, client, peer string, peers []string) (*exec.Cmd, error) {
		return procs.Member{Dir: dir, Client: client, Peer: peer, Peers: peers,
			Election: membersElection}.Command(procs.Etcd37)
	}
	runChaos(t, cfg)
}

// runChaos runs one world after the other, of each kind in turn, until the time is over or one of them fails.
func runChaos(t *testing.T, kinds ...chaos.Config) {
	t.Helper()
	began := time.Now()
	var counts [][]chaos.Count
	worlds, exempt := 0, map[string]*apart{}
	var failed string
	var all seen
	for seed := *chaosSeed; worlds < len(kinds) || time.Since(began) < *chaosFor; seed++ {
		cfg := kinds[worlds%len(kinds)]
		res := runWorld(t, cfg, seed)
		worlds++
		counts = append(counts, res.Counts)
		all.add(res.Verdict)
		for _, f := range res.Verdict.Exempt {
			if f.Mark.Name == history.RevokedByEtcd && !cfg.Bound && !f.Subject.IsLock() {
				res.Verdict.Findings = append(res.Verdict.Findings, f) // others wait for a node that may not know it
				continue
			}
			of := exempt[f.Mark.Name]
			if of == nil {
				of = &apart{}
				exempt[f.Mark.Name] = of
			}
			of.add(f)
		}
		t.Logf("seed %d: %d faults counted in %v; %d findings, %d overlaps exempt; %v", seed, total(res.Counts),
			res.Took.Round(time.Second), len(res.Verdict.Findings), len(res.Verdict.Exempt), res.Verdict.Seen)
		if res.Err != nil || len(res.Verdict.Findings) > 0 {
			t.Logf("the transcript is in %s\n%v", keep(t, res), res.Verdict)
			failed = whatFailed(res)
			break
		}
	}
	sum := chaos.Add(counts...)
	onLeader, atOwner, removed := 0, 0, 0
	var table strings.Builder
	for _, c := range sum {
		fmt.Fprintf(&table, "  %-40s %4d done, %4d counted, %4d at the leader, %4d at an owner", c.Kind, c.Done, c.Counted,
			c.OnLeader, c.AtOwner)
		if c.Removed > 0 {
			fmt.Fprintf(&table, ", %4d removed for silence", c.Removed)
		}
		table.WriteByte('\n')
		onLeader += c.OnLeader
		atOwner += c.AtOwner
		removed += c.Removed
		if failed == "" {
			require.Positive(t, c.Counted, "%s: no effect was ever seen", c.Kind)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(exempt)) {
		fmt.Fprintf(&table, "  overlaps exempt after %s: %v\n", name, exempt[name])
	}
	t.Logf("%d worlds, %d faults counted, %d of them at the leader, %d at an owner of shards, in %v; %v\n%s",
		worlds, total(sum), onLeader, atOwner, time.Since(began).Round(time.Second), &all, table.String())
	if failed != "" { // last, because readers look there first
		t.Fatal(failed)
	}
	if !kinds[0].Members {
		if kinds[0].SilenceTimeout > 0 {
			require.Positive(t, removed, "no member was removed for its silence")
		}
		// When a fault is aimed, it is unknown whether it will be counted.
		require.GreaterOrEqual(t, 2*onLeader+2, total(sum), "half of the faults are to hit the leader")
	}
}

// whatFailed describes the failures of a world in a few lines.
func whatFailed(res *chaos.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d failed: %s", res.Seed, res.Verdict.Summary())
	for _, f := range res.Verdict.Findings[:min(3, len(res.Verdict.Findings))] {
		fmt.Fprintf(&b, "\n%s, %v: %s", f.Kind, f.Subject, f.Text)
	}
	if res.Err != nil {
		fmt.Fprintf(&b, "\nbroken off: %v", res.Err)
	}
	return b.String()
}

// seen holds the observations behind all verdicts.
type seen struct {
	sum     history.Seen
	leaders []time.Duration // pauses between two leaders
	owners  []time.Duration // of a shard
}

func (s *seen) add(v history.Verdict) {
	s.sum.Samples += v.Seen.Samples
	s.sum.Terms += v.Seen.Terms
	s.sum.Ownerships += v.Seen.Ownerships
	s.sum.Accepted += v.Seen.Accepted
	s.sum.Refused += v.Seen.Refused
	s.sum.Grants += v.Seen.Grants
	s.sum.Shared += v.Seen.Shared
	s.sum.Increments += v.Seen.Increments
	s.sum.Fenced += v.Seen.Fenced
	s.sum.Unanswered += v.Seen.Unanswered
	s.sum.Effects += v.Seen.Effects
	s.sum.Attempts += v.Seen.Attempts
	s.sum.Ran += v.Seen.Ran
	s.sum.Unclear += v.Seen.Unclear
	s.sum.Late += v.Seen.Late
	s.sum.Activations += v.Seen.Activations
	s.sum.Calls += v.Seen.Calls
	s.sum.Answered += v.Seen.Answered
	s.leaders = append(s.leaders, v.Pauses(history.Leadership)...)
	for shard := range v.Seen.Shards {
		s.owners = append(s.owners, v.Pauses(history.Shard(shard))...)
	}
}

func (s *seen) String() string {
	return fmt.Sprintf("%d samples, %d terms (%s), %d ownerships (%s); %d guarded writes accepted, %d refused",
		s.sum.Samples, s.sum.Terms,
		percentiles(s.leaders), s.sum.Ownerships, percentiles(s.owners), s.sum.Accepted, s.sum.Refused) +
		fmt.Sprintf("; %d locks granted, %d of them shared; increments under them: %d accepted, %d refused, %d unknown",
			s.sum.Grants, s.sum.Shared,
			s.sum.Increments, s.sum.Fenced, s.sum.Unanswered) +
		fmt.Sprintf("; %d effects tried %d times, run %d times, %d unknown for a while, %d too late", s.sum.Effects,
			s.sum.Attempts, s.sum.Ran,
			s.sum.Unclear, s.sum.Late) +
		fmt.Sprintf("; %d activations of objects, %d of %d calls answered", s.sum.Activations, s.sum.Answered, s.sum.Calls)
}

func percentiles(pauses []time.Duration) string {
	if len(pauses) == 0 {
		return "no pause"
	}
	slices.Sort(pauses)
	at := func(percent int) time.Duration {
		return pauses[(len(pauses)-1)*percent/100].Round(time.Millisecond)
	}
	return fmt.Sprintf("pauses between two: p50 %v, p90 %v, longest %v", at(50), at(90), at(100))
}

// apart counts the exempt overlaps of one kind and holds the longest of them.
type apart struct {
	leaders, owners, holders                 int
	longestLeader, longestOwn, longestHolder time.Duration
}

func (a *apart) add(f history.Finding) {
	switch {
	case f.Subject == history.Leadership:
		a.leaders, a.longestLeader = a.leaders+1, max(a.longestLeader, f.Length())
	case f.Subject.IsLock():
		a.holders, a.longestHolder = a.holders+1, max(a.longestHolder, f.Length())
	default:
		a.owners, a.longestOwn = a.owners+1, max(a.longestOwn, f.Length())
	}
}

func (a *apart) String() string {
	return fmt.Sprintf("%d of leaders, the longest %v; %d of owners of a shard, the longest %v; %d of holders of a "+
		"lock, the longest %v",
		a.leaders, a.longestLeader.Round(time.Microsecond), a.owners, a.longestOwn.Round(time.Microsecond), a.holders,
		a.longestHolder.Round(time.Microsecond))
}

func runWorld(t *testing.T, cfg chaos.Config, seed uint64) *chaos.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cfg.Dir = t.TempDir()
	res, err := chaos.Run(ctx, cfg, seed)
	require.NoError(t, err)
	return res
}

func chaosConfig(t *testing.T) chaos.Config {
	return chaos.Config{TTL: int(ttl / time.Second), Dir: t.TempDir(), Log: t.Logf, Hostile: *chaosHostile,
		EtcdMembers: *chaosEtcd,
		Addresses:   func(n int) []string { return kit.Addresses(t, n) },
		Etcd: func(dir, client, peer string, peers []string) (*exec.Cmd, error) {
			return procs.Member{Dir: dir, Client: client, Peer: peer, Peers: peers}.Command(procs.Etcd37)
		}}
}

func total(counts []chaos.Count) int {
	sum := 0
	for _, c := range counts {
		sum += c.Counted
	}
	return sum
}

// keep stores the data needed to analyse a failure.
func keep(t *testing.T, res *chaos.Result) string {
	t.Helper()
	dir := *chaosKeep
	var err error
	if dir == "" {
		dir, err = os.MkdirTemp("", "goverse-chaos-")
		require.NoError(t, err)
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("verdict.txt", fmt.Sprintf("seed %d\n%v\n%v", res.Seed, res.Err, res.Verdict))
	write("faults.txt", strings.Join(res.Faults, "\n")+"\n")
	var names []string
	for name := range res.Output {
		names = append(names, name)
	}
	slices.Sort(names)
	var out strings.Builder
	for _, name := range names {
		fmt.Fprintf(&out, "=== %s\n%s\n", name, res.Output[name])
	}
	write("nodes.txt", out.String())
	return dir
}
