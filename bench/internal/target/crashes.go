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

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/sample"
)

// busyGap is the time between two kills while the cores are busy.
const busyGap = 3 * time.Second

// killings holds the results of a series of kills.
type killings struct {
	name                                    string
	next, socket, accused, removed, unknown *sample.Series
	expired, outOfTurn, usurped             int
	refutations                             int64
	hurt                                    injuries
	spinners                                int
	idle                                    float64 // fraction of the cores' time
}

func newKillings(name string) *killings {
	return &killings{name: name, next: sample.Millis(name + ", killed"),
		socket: sample.Millis(name + ": a connection ended"), accused: sample.Millis(name + ": accused"),
		removed: sample.Millis(name + ": removed"), unknown: sample.Millis(name + ": may have led before")}
}

// harmed reports whether a process that was not killed suffered anything.
func (k *killings) harmed() bool {
	return k.hurt != injuries{} || k.outOfTurn+k.usurped > 0 || k.refutations > 0
}

func (i injuries) since(before injuries) injuries {
	return injuries{i.accused - before.accused, i.removed - before.removed, i.unqueued - before.unqueued}
}

// crashes is a trio of nodes with its observers.
type crashes struct {
	name    string // name of the target, for the log
	env     Env
	client  *clientv3.Client
	trio    *trio
	witness *witness
	harmed  bool
	leader  *member // the leader of the last round
	token   int64
}

// with starts a trio, runs f, and stops the trio.
func (c *crashes) with(ctx context.Context, g *goversed, p *etcdproc.Process, f func() error) (err error) {
	clients, closeAll, err := dial(ctx, p.Endpoint, 1)
	if err != nil {
		return err
	}
	defer closeAll()
	c.client = clients[0]
	log := func(format string, args ...any) { c.env.Log(c.name+": "+format, args...) }
	if c.witness, err = newWitness(ctx, c.client, "/goverse", log); err != nil {
		return err
	}
	c.trio, err = startTrio(ctx, g, p.Endpoint)
	if err == nil {
		err = f()
	}
	c.witness.close() // before the nodes leave
	err = errors.Join(err, c.trio.stop(ctx))
	warnings := c.trio.warnings()
	for _, line := range slices.Sorted(maps.Keys(warnings)) {
		c.env.Log(c.name+": the nodes' logs: %d × %s", warnings[line], line)
	}
	if err != nil || c.harmed {
		path, kerr := c.keepLogs()
		c.env.Log(c.name+": the nodes' logs are kept: %s", path)
		err = errors.Join(err, kerr)
	}
	return err
}

// keepLogs writes the nodes' logs into a file, one process after the other.
func (c *crashes) keepLogs() (path string, err error) {
	dir, err := os.MkdirTemp("", "goverse-bench-"+c.name+"-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "nodes.log")
	return path, os.WriteFile(path, []byte(strings.Join(c.trio.logs, "\n")), 0o644)
}

// plant checks that the witness detects forbidden events: it deletes the leader's node key. It returns the
// witness's counts after that.
func (c *crashes) plant(ctx context.Context) (injuries, error) {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	queue, err := c.trio.settled(ctx)
	if err != nil {
		return injuries{}, err
	}
	c.leader = queue[0]
	if _, err := c.client.Delete(ctx, c.witness.keys.Node(c.leader.address)); err != nil {
		return injuries{}, err
	}
	for {
		seen := c.witness.living()
		queue, err := c.trio.look(ctx)
		if err == nil && c.usurped(queue) && seen.removed > 0 && seen.unqueued > 0 {
			c.leader = queue[0]
			return seen, nil
		}
		rest(ctx, pause)
		if ctx.Err() != nil {
			return seen, fmt.Errorf("a leader's node key was deleted, and the witness shows %+v: %w", seen,
				errors.Join(err, ctx.Err()))
		}
	}
}

// usurped reports whether the leader has changed since the end of the last round.
func (c *crashes) usurped(queue []*member) bool { return queue[0] != c.leader }

// kill runs one round.
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
	if c.usurped(queue) {
		k.usurped++
		c.env.Log(c.name+": %s leads, and no leader was killed", old.address)
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
	refuted, err := refutations(ctx, survivors)
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
	now, err := refutations(ctx, survivors)
	if err != nil {
		return err
	}
	k.refutations += now - refuted
	if next.by != queue[1] {
		k.outOfTurn++
		c.env.Log(c.name+": %s leads, and %s was the next in the queue", next.by.address, queue[1].address)
	}
	if next.status.Token <= c.token {
		return fmt.Errorf("%s leads with token %d after one with %d", next.by.address, next.status.Token, c.token)
	}
	c.leader, c.token = next.by, next.status.Token
	c.trio.bury(ctx, old)
	return c.trio.start(old)
}

// refutations returns the sum of the members' refutations since their start.
func refutations(ctx context.Context, members []*member) (sum int64, err error) {
	for _, m := range members {
		st, err := m.status(ctx)
		if err != nil {
			return 0, err
		}
		sum += st.Crashes.Refutations
	}
	return sum, nil
}

// whileBusy kills leaders for the given time while spinners keep all cores busy.
func (c *crashes) whileBusy(ctx context.Context, k *killings, span time.Duration) (err error) {
	c.env.Log(c.name+": leaders are killed for %v while the cores are busy", span)
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
		// Kill at a random time within each gap.
		if err := c.kill(ctx, k, max(time.Until(at.Add(rand.N(busyGap))), pause)); err != nil {
			return err
		}
	}
	_, err = c.trio.settled(ctx)
	idle, err2 := s.idle()
	k.idle = idle
	return errors.Join(err, err2)
}
