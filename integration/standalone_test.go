//go:build linux

package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/history"
)

var (
	aloneRounds = flag.Int("alone.rounds", 6, "how many faults hit the leader of the processes of an election by itself")
	aloneTTL    = flag.Duration("alone.ttl", 2*time.Second, "the TTL of those processes")
)

// aloneWorld is an etcd with processes of an election by itself.
type aloneWorld struct {
	*testing.T
	endpoints string
	ttl       time.Duration // of the processes
	dir       string
	records   []string
	processes map[string]*procs.Process
	observer  *leaderelection.LeaderElection
	runner    *leaderelection.Runner     // of the observer
	gaps      map[string][]time.Duration // time without a leader, by fault
}

func newAloneWorld(t *testing.T, endpoints string) *aloneWorld {
	t.Helper()
	w := &aloneWorld{T: t, endpoints: endpoints, ttl: *aloneTTL, dir: t.TempDir(),
		processes: map[string]*procs.Process{}, gaps: map[string][]time.Duration{}}
	observer, runner, err := leaderelection.New(leaderelection.Config{EtcdAddress: endpoints, EtcdPrefix: alonePrefix,
		TTL: *aloneTTL, Observer: true})
	require.NoError(t, err)
	require.NoError(t, runner.Start(etcdtest.Context(t)))
	w.observer, w.runner = observer, runner
	return w
}

// start starts another process, and returns once it is queued.
func (w *aloneWorld) start(lies time.Duration) string {
	w.Helper()
	id := fmt.Sprint("process-", len(w.records))
	record := filepath.Join(w.dir, id)
	w.records = append(w.records, record)
	p := kit.Start(w.T, id, os.Args[0], nil, []string{aloneEnv + "=" + aloneConfig{ID: id, Etcd: w.endpoints,
		Record: record, TTL: w.ttl, Lies: lies}.encode(w.T)})
	p.AwaitOutput(w.T, 30*time.Second, "started")
	w.processes[id] = p
	return id
}

// leader waits until one of the processes leads that is not the given one, and returns its id.
func (w *aloneWorld) leader(not string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	seen, err := w.observer.Watch(ctx)
	require.NoError(w.T, err)
	for l := range seen {
		if l.Address != not && w.processes[l.Address] != nil {
			return l.Address
		}
	}
	w.Fatalf("no process leads but %q", not)
	return ""
}

// close ends the observer, while etcd runs.
func (w *aloneWorld) close() { require.NoError(w.T, w.runner.Stop(context.Background())) }

// judge checks the claims of all processes.
func (w *aloneWorld) judge() history.Verdict {
	w.Helper()
	h, err := history.ReadFiles(w.records...)
	require.NoError(w.T, err)
	return history.Check(h, history.Limits{})
}

// hitLeader injects one fault into the leading process, waits until another one leads, and makes the processes three
// again.
func (w *aloneWorld) hitLeader(fault string, inject func(p *procs.Process)) {
	w.Helper()
	id := w.leader("")
	p := w.processes[id]
	began := time.Now()
	inject(p)
	w.leader(id)
	w.gaps[fault] = append(w.gaps[fault], time.Since(began))
	if fault == "SIGSTOP" {
		p.Thaw(w.T)
		return
	}
	code := p.Exit(w.T, patience)
	if fault == "SIGTERM" {
		require.Zero(w.T, code, p.Output())
	}
	delete(w.processes, id)
	w.start(0)
}

// hitInTurn hits the leader with one signal after the other. It reports false in every fourth round, without a signal.
func (w *aloneWorld) hitInTurn(round int) bool {
	switch round % 4 {
	case 0:
		w.hitLeader("SIGTERM", func(p *procs.Process) { p.Signal(w.T, syscall.SIGTERM) })
	case 1:
		w.hitLeader("SIGKILL", func(p *procs.Process) { p.Kill(w.T) })
	case 2:
		w.hitLeader("SIGSTOP", func(p *procs.Process) { p.Freeze(w.T) })
	default:
		return false
	}
	return true
}

// requireOneLeader judges the claims, and logs how long there was no leader.
func (w *aloneWorld) requireOneLeader() {
	w.Helper()
	v := w.judge()
	require.True(w.T, v.OK(), v)
	w.Logf("%d rounds, until another leads: %s\n%s", *aloneRounds, formatGaps(w.gaps), v.Summary())
}

// Three processes of an election by itself never lead at once, whatever hits the leader or etcd.
//
// The full run: -run 'TestElectionAlone$|OverStuttering' -timeout 60m -args -alone.rounds 200
func TestElectionAlone(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	w := newAloneWorld(t, etcd.Endpoint)
	defer w.close()
	for range 3 {
		w.start(0)
	}
	for id, p := range w.processes {
		require.Empty(t, listeningSockets(t, p.Pid()), "%s opens no port", id)
	}
	for round := range *aloneRounds {
		if w.hitInTurn(round) {
			continue
		}
		etcd.Kill(t)
		began := time.Now()
		if round%8 == 3 { // longer than the sessions last
			procs.SleepUntil(began.Add(*aloneTTL + time.Second))
		}
		etcd.Restart(t)
		w.leader("")
		w.gaps["etcd away"] = append(w.gaps["etcd away"], time.Since(began))
	}
	w.requireOneLeader()
}

// Processes of an election by itself, etcdctl elect and a node queue under one prefix, and lead one after the other.
func TestElectionAloneBesideEtcdctlAndANode(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		t.Parallel()
		etcd := kit.StartEtcd(t, flavour)
		w := newAloneWorld(t, etcd.Endpoint)
		defer w.close()
		w.ttl = longTTL // each keeps its place in the queue
		queue := alonePrefix + "/leader"
		first := w.start(0)
		outside := kit.StartEtcdctl(t, etcd, "elect", queue, outsider)
		w.awaitQueued(etcd, queue, 2)
		node := kit.StartNode(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: longTTL,
			Flags: []string{"--prefix", alonePrefix}})
		w.awaitQueued(etcd, queue, 3)
		last := w.start(0)
		w.processes[outsider], w.processes[node.Address] = outside, node.Process
		for _, leads := range []string{first, outsider, node.Address} {
			require.Equal(t, leads, w.leader(""))
			if leads == outsider { // etcdctl fails if the signal comes before it knows that it leads
				outside.AwaitOutput(t, patience, outsider)
			}
			w.processes[leads].Signal(t, syscall.SIGTERM)
			require.Zero(t, w.processes[leads].Exit(t, patience), w.processes[leads].Output())
			delete(w.processes, leads)
		}
		require.Equal(t, last, w.leader(""))
		require.True(t, w.judge().OK(), w.judge())
	})
}

// awaitQueued waits until the queue has n candidates.
func (w *aloneWorld) awaitQueued(etcd *procs.Etcd, queue string, n int) {
	w.Helper()
	client := etcd.Client(w.T, "", "")
	require.Eventually(w.T, func() bool { return len(procs.Keys(w.T, client, queue)) == n }, patience,
		10*time.Millisecond)
}

// formatGaps returns the median and the longest gap of each fault.
func formatGaps(gaps map[string][]time.Duration) string {
	var out []string
	for fault, all := range gaps {
		slices.Sort(all)
		out = append(out, fmt.Sprintf("%s %d times, median %v, longest %v", fault, len(all),
			all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond)))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// The judge of the test above sees a process that claims to lead after it has handed over.
func TestElectionAloneJudgeSeesAnOverlap(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	w := newAloneWorld(t, etcd.Endpoint)
	defer w.close()
	liar := w.start(3 * time.Second) // the other one needs some time to see that it leads
	require.Equal(t, liar, w.leader(""))
	w.start(0)
	w.processes[liar].Signal(t, syscall.SIGTERM)
	w.leader(liar)
	require.Zero(t, w.processes[liar].Exit(t, patience))
	require.NotEmpty(t, w.judge().FindingsOf(history.Overlap))
}

// Three members of etcd stand still in turn, and then the leader is hit.
func TestElectionAloneOverStutteringMembers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three members of etcd")
	}
	t.Parallel()
	m := kit.StartMembers(t, procs.Etcd37, 3, 0)
	w := newAloneWorld(t, strings.Join(m.Endpoints, ","))
	defer w.close()
	for range 3 {
		w.start(0)
	}
	for round := range *aloneRounds {
		member := m.Processes[round%3]
		member.Freeze(t)
		procs.SleepUntil(time.Now().Add(*aloneTTL / 2))
		member.Thaw(t)
		w.hitInTurn(round)
	}
	w.requireOneLeader()
}

// listeningSockets returns the TCP addresses at which a process listens.
func listeningSockets(t testing.TB, pid int) []string {
	t.Helper()
	inodes := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil {
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				inodes[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	require.NotEmpty(t, inodes, "the process has connections to etcd")
	var out []string
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			const listen = "0A"
			if len(fields) > 9 && fields[3] == listen && inodes[fields[9]] {
				out = append(out, fields[1])
			}
		}
	}
	return out
}
