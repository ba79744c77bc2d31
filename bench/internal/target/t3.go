package target

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
)

const (
	killMedianGoal = 150.0 // ms
	killP99Goal    = 300.0 // ms
	// busyGap is between two kills while the cores are busy.
	busyGap = 3 * time.Second
)

// crash kills leaders' processes, of ours and of the peer's.
func crash(ctx context.Context, env Env, r *report.Result) error {
	g, err := buildGoversed(ctx)
	if err != nil {
		return err
	}
	defer g.remove()
	kills, pairs := env.pick(200, 10), env.pick(16, 2)
	busyFor, peerTTL := time.Duration(env.pick(600, 6))*time.Second, time.Duration(env.pick(10, 2))*time.Second
	return withEtcd(func(p *etcdproc.Process) error {
		env.Log("T3: %d leaders of concurrency.Election are killed, TTL %v", pairs, peerTTL)
		peer, err := killPeers(ctx, p, pairs, peerTTL)
		if err != nil {
			return err
		}
		c := &crashes{env: env}
		idle, busy := newKillings("goverse"), newKillings("goverse, cores busy")
		if err := c.with(ctx, g, p, func() error {
			env.Log("T3: %d leaders are killed", kills)
			for len(idle.next.Values) < kills {
				if err := c.kill(ctx, idle, 50*time.Millisecond+rand.N(100*time.Millisecond)); err != nil {
					return err
				}
			}
			idle.hurt = c.witness.living()
			return c.whileBusy(ctx, busy, busyFor)
		}); err != nil {
			return err
		}
		busy.hurt = c.witness.living().since(idle.hurt)
		tellKills(r, idle, busy, peer, busyFor)
		r.Note("Three `goversed node` processes with default flags (TTL 10 s) beside one etcd. The leader's gets SIGKILL; the time is " +
			"from just before the signal to the first answer of another process whose `/cluster/status` has `is_leader`. Then it is " +
			"started again at the same address, and the next round begins when all three are queued, agree, and watch each other, " +
			"after 50 to 150 ms more.")
		r.Note("Both survivors are asked every %v over kept connections. The next one may have led earlier than it said, by at most the "+
			"time since the last request was sent that was answered no: p50 %s, max %s; with the cores busy p50 %s, max %s. That is not subtracted.",
			asking, ms(idle.unknown.Median()), ms(idle.unknown.Max()), ms(busy.unknown.Median()), ms(busy.unknown.Max()))
		r.Note("A bare client watches the cluster's keys. A node key that is removed, or a candidate's key, has to be that of a process " +
			"that was killed; every other one counts. It also tells when the accusation stood and when the keys were gone.")
		r.Note("Busy: %d processes of one thread each that never sleeps, %d a core, with the same priority as all others; a kill every %v.",
			busy.spinners, spinnersPerCore, busyGap)
		r.Note("Beside it: %d leaders of `concurrency.Election` on `concurrency.Session`s with TTL %v, each in a process of its own that gets "+
			"SIGKILL at a random instant of the renewal cycle, until the next one's `Campaign` returned.", pairs, peerTTL)
		return nil
	})
}

// killings is what a series of kills showed.
type killings struct {
	name                                    string
	next, socket, accused, removed, unknown *sample.Series
	expired, outOfTurn, usurped             int
	hurt                                    injuries
	spinners                                int
	idle                                    float64 // share of the cores' time
}

func newKillings(name string) *killings {
	return &killings{name: name, next: sample.Millis(name + ", killed"), socket: sample.Millis(name + ": a connection ended"),
		accused: sample.Millis(name + ": accused"), removed: sample.Millis(name + ": removed"), unknown: sample.Millis(name + ": may have led before")}
}

func (i injuries) since(before injuries) injuries {
	return injuries{i.accused - before.accused, i.removed - before.removed, i.unqueued - before.unqueued}
}

// crashes is a trio and what watches it.
type crashes struct {
	env     Env
	trio    *trio
	witness *witness
	leader  *member // of the last round
	token   int64
}

// with runs f beside a trio that is whole, and stops that.
func (c *crashes) with(ctx context.Context, g *goversed, p *etcdproc.Process, f func() error) (err error) {
	clients, closeAll, err := dial(ctx, p.Endpoint, 1)
	if err != nil {
		return err
	}
	defer closeAll()
	if c.witness, err = newWitness(ctx, clients[0], "/goverse", func(format string, args ...any) { c.env.Log("T3: "+format, args...) }); err != nil {
		return err
	}
	c.trio, err = startTrio(ctx, g, p.Endpoint)
	if err == nil {
		err = f()
	}
	c.witness.close() // before they leave
	err = errors.Join(err, c.trio.stop(ctx))
	warnings := c.trio.warnings()
	for _, line := range slices.Sorted(maps.Keys(warnings)) {
		c.env.Log("T3: the nodes' logs: %d × %s", warnings[line], line)
	}
	if err != nil {
		return c.keepLogs(err)
	}
	return nil
}

// keepLogs adds to err where the nodes' logs are.
func (c *crashes) keepLogs(err error) error {
	dir, derr := os.MkdirTemp("", "goverse-bench-T3-")
	if derr != nil {
		return errors.Join(err, derr)
	}
	path := filepath.Join(dir, "nodes.log")
	if derr := os.WriteFile(path, []byte(strings.Join(c.trio.logs, "")), 0o644); derr != nil {
		return errors.Join(err, derr)
	}
	return fmt.Errorf("%w; the nodes' logs: %s", err, path)
}

// kill is one round.
func (c *crashes) kill(ctx context.Context, k *killings, pause time.Duration) error {
	if _, err := c.trio.settled(ctx); err != nil {
		return err
	}
	rest(ctx, pause)
	queue, err := c.trio.settled(ctx)
	if err != nil {
		return err
	}
	old, survivors := queue[0], queue[1:]
	if c.leader != nil && c.leader != old {
		k.usurped++
		c.env.Log("T3: %s leads, and no leader was killed", old.address)
	}
	bare, err := net.Dial("tcp", old.http)
	if err != nil {
		return err
	}
	defer func() { _ = bare.Close() }()
	ended := make(chan time.Time, 1)
	go func() { // ends with the connection
		_, _ = bare.Read(make([]byte, 1))
		ended <- time.Now()
	}()
	victim, err := c.witness.killing(old.address)
	if err != nil {
		return err
	}
	started := time.Now()
	old.daemon.kill()
	next, err := awaitLeader(ctx, survivors, started)
	if err != nil {
		return err
	}
	k.next.Add(next.at.Sub(started))
	k.unknown.Add(next.unknown)
	k.socket.Add((<-ended).Sub(started))
	accused, removed, err := c.witness.removal(ctx, victim)
	if err != nil {
		return err
	}
	k.removed.Add(removed.Sub(started))
	if accused.IsZero() {
		k.expired++
	} else {
		k.accused.Add(accused.Sub(started))
	}
	if next.by != queue[1] {
		k.outOfTurn++
		c.env.Log("T3: %s leads, and %s was the next in the queue", next.by.address, queue[1].address)
	}
	if next.status.Token <= c.token {
		return fmt.Errorf("%s leads with token %d after one with %d", next.by.address, next.status.Token, c.token)
	}
	c.leader, c.token = next.by, next.status.Token
	c.trio.bury(ctx, old)
	return c.trio.start(old)
}

// whileBusy kills on for that long while nothing of the cores' time is left over.
func (c *crashes) whileBusy(ctx context.Context, k *killings, span time.Duration) (err error) {
	c.env.Log("T3: leaders are killed for %v while the cores are busy", span)
	if _, err := c.trio.settled(ctx); err != nil {
		return err
	}
	s, err := startSpinners()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	k.spinners = len(s.processes)
	end := time.Now().Add(span)
	for at := time.Now(); time.Now().Before(end); at = at.Add(busyGap) {
		// At a random instant of each gap.
		if err := c.kill(ctx, k, max(time.Until(at.Add(rand.N(busyGap))), pause)); err != nil {
			return err
		}
	}
	_, err = c.trio.settled(ctx)
	idle, err2 := s.idle()
	k.idle = idle
	return errors.Join(err, err2)
}

func tellKills(r *report.Result, idle, busy *killings, peer *sample.Series, busyFor time.Duration) {
	n := len(idle.next.Values)
	r.Row("next leader, p50", fmt.Sprintf("≤ %.0f ms", killMedianGoal), ms(idle.next.Median()), report.Judge(idle.next.Median() <= killMedianGoal))
	r.Row("next leader, p99", fmt.Sprintf("≤ %.0f ms", killP99Goal), fmt.Sprintf("%s of %d kills; max %s", ms(idle.next.P(0.99)), n, ms(idle.next.Max())),
		report.Judge(idle.next.P(0.99) <= killP99Goal))
	tellPhases(r, "", idle)
	tellHarm(r, "", idle)
	r.Row("`concurrency.Election`: next leader", "", fmt.Sprintf("p50 %s, max %s", seconds(peer.Median()), seconds(peer.Max())), report.Context)
	const prefix = "cores busy: "
	r.Row(prefix+"next leader", "", fmt.Sprintf("%s, max %s of %d kills in %v; the cores were idle for %.1f %% of the time",
		p50p99(busy.next.Median(), busy.next.P(0.99)), ms(busy.next.Max()), len(busy.next.Values), busyFor, 100*busy.idle), report.Context)
	tellPhases(r, prefix, busy)
	tellHarm(r, prefix, busy)
	for _, k := range []*killings{idle, busy} {
		r.Keep(k.next, k.socket, k.accused, k.removed, k.unknown)
	}
	r.Keep(peer)
	r.Plots = append(r.Plots, report.Plot{Name: "T3", Title: "Time from SIGKILL of the leader's process to the next leader",
		Series: []*sample.Series{idle.next, busy.next, peer, idle.socket}})
}

// tellPhases says what the time was spent on, each counted from the signal.
func tellPhases(r *report.Result, prefix string, k *killings) {
	for _, phase := range []struct {
		what string
		s    *sample.Series
	}{
		{"… of it until a bare connection to the process ended", k.socket},
		{"… until an accusation stood in etcd", k.accused},
		{"… until its keys were removed", k.removed},
	} {
		r.Row(prefix+phase.what, "", p50p99(phase.s.Median(), phase.s.P(0.99)), report.Context)
	}
}

// tellHarm says what came to those who were not killed.
func tellHarm(r *report.Result, prefix string, k *killings) {
	r.Row(prefix+"living members removed", "0", fmt.Sprintf("%d; %d accusations of living ones", k.hurt.removed, k.hurt.accused), report.Judge(k.hurt.removed == 0))
	wrong := k.hurt.unqueued + k.outOfTurn + k.usurped
	r.Row(prefix+"leaders other than the next in the queue after a kill", "0",
		fmt.Sprintf("%d; %d leases ran out", k.outOfTurn+k.usurped, k.expired), report.Judge(wrong == 0))
}
