package target

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
)

const (
	handoverP50, handoverP99 = 1.3, 3.0
	// maxConns limits the connections of the candidates of one queue, and of as many bare watchers.
	maxConns = 100
	// gcPercent is GOGC while all candidates and watchers share one heap.
	gcPercent = 400
	// unfresh is the time that the peer's candidate must have waited for etcd to have caught up with its watch,
	// which etcd does every 100 ms.
	unfresh = 150 * time.Millisecond
)

// handover measures queues of several lengths, and a queue with a next candidate that has only just joined.
func handover(ctx context.Context, env Env, r *report.Result) error {
	// One heap holds the data of a thousand nodes; its collection stops all of them.
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	sizes := []struct{ candidates, samples int }{
		{2, env.pick(400, 5)}, {100, env.pick(600, 5)}, {env.pick(1000, 200), env.pick(200, 3)},
	}
	for _, size := range sizes {
		env.Log("T2: %d candidates, %d handovers", size.candidates, size.samples)
		q := newSamples(fmt.Sprintf("%d candidates", size.candidates))
		if err := withEtcd(func(p *etcdproc.Process) error {
			return q.standing(ctx, p, size.candidates, size.samples)
		}); err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		q.judge(r, fmt.Sprintf("T2-%d", size.candidates))
	}
	env.Log("T2: fresh queue")
	q := newSamples("2 candidates, the next one fresh")
	if err := withEtcd(func(p *etcdproc.Process) error {
		return q.fresh(ctx, p, env.pick(200, 5))
	}); err != nil {
		return fmt.Errorf("%s: %w", q.name, err)
	}
	q.judge(r, "T2-fresh")
	r.Row("age of the next one in the fresh queue", "< 100 ms", fmt.Sprintf("max %s", ms(q.age.Max())), report.Context)
	r.Keep(q.age)
	r.Note("A handover runs from the call of `Resign` on the leader until a function that waits in `Lead` at the next " +
		"one has been entered, `IsLeader()` being true. Floor: from the call of `Delete` until the event has been " +
		"received by one of as many bare watchers. Beside it: `concurrency.Election`, from the call of `Resign` until " +
		"`Campaign` has returned. The three take turns.")
	r.Note("Each candidate is a `leaderelection.LeaderElection` with a session and a mirror of its own, so with one "+
		"watch stream of its own; each bare watcher has a stream of its own too. All of them are in one process and "+
		"share the same connections: one per candidate, %d at most. The sessions' TTL is %v; a graceful handover does "+
		"not wait for it. GOGC is %d, for the same reason: one heap holds what would be in as many "+
		"processes.", maxConns, queueTTL, gcPercent)
	return nil
}

// samples holds the three arms of one queue.
type samples struct {
	name                   string
	ours, floor, peer, age *sample.Series
}

func newSamples(name string) *samples {
	return &samples{name: name, ours: sample.Millis("goverse, " + name),
		floor: sample.Millis("delete to watch event, " + name),
		peer:  sample.Millis("concurrency.Election, " + name), age: sample.Millis("age of the next one")}
}

// standing measures a queue in which all candidates have waited for a while.
func (q *samples) standing(ctx context.Context, p *etcdproc.Process, candidates, n int) (err error) {
	clients, closeAll, err := dial(ctx, p.Endpoint, min(candidates, maxConns))
	if err != nil {
		return err
	}
	defer closeAll()
	w, err := watch(ctx, clients, "/floor/", candidates)
	if err != nil {
		return err
	}
	defer w.close()
	others, err := newPeers(ctx, clients, "/peer", candidates)
	if err != nil {
		return err
	}
	defer others.close()
	l, err := newLine(ctx, clients, "/goverse", candidates)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()

	for i := range n + warmUp {
		ours, err := l.handOver(ctx)
		if err != nil {
			return err
		}
		floor, err := q.removal(ctx, w, i%candidates)
		if err != nil {
			return err
		}
		if candidates == 2 {
			rest(ctx, unfresh)
		} else {
			rest(ctx, pause)
		}
		led := others.queue[0]
		peer, err := others.handOver(ctx)
		if err != nil {
			return err
		}
		if err := others.requeue(ctx, led); err != nil {
			return err
		}
		if i >= warmUp {
			q.ours.Add(ours)
			q.floor.Add(floor)
			q.peer.Add(peer)
		}
	}
	return nil
}

// warmUp is the number of first samples to discard.
const warmUp = 3

func (q *samples) removal(ctx context.Context, w *watchers, chosen int) (time.Duration, error) {
	if _, err := w.put(ctx, chosen); err != nil {
		return 0, err
	}
	rest(ctx, pause)
	return w.remove(ctx, chosen)
}

// fresh measures handovers to a candidate that has just joined: the leader resigns as soon as the new candidate
// is queued.
func (q *samples) fresh(ctx context.Context, p *etcdproc.Process, n int) (err error) {
	clients, closeAll, err := dial(ctx, p.Endpoint, 2)
	if err != nil {
		return err
	}
	defer closeAll()
	w, err := watch(ctx, clients, "/floor/", 2)
	if err != nil {
		return err
	}
	defer w.close()
	l, err := newLine(ctx, clients, "/goverse", 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	others, err := newPeers(ctx, clients, "/peer", 1)
	if err != nil {
		return err
	}
	defer others.close()

	for i := range n + warmUp {
		started := time.Now()
		next, err := newCandidate(ctx, clients[i%2], "/goverse", fmt.Sprintf("127.0.0.1:%d", 1001+i))
		if err != nil {
			return err
		}
		l = append(l, next)
		ours, err := l.handOver(ctx)
		if err != nil {
			return err
		}
		age := time.Since(started) // an upper bound
		old := l[1]
		l = l[:1]
		if err := old.close(ctx); err != nil {
			return err
		}
		floor, err := q.removal(ctx, w, i%2)
		if err != nil {
			return err
		}
		// Otherwise each round would end at the same point of etcd's 100 ms cycle.
		rest(ctx, rand.N(100*time.Millisecond))
		if err := others.join(ctx, i); err != nil {
			return err
		}
		rest(ctx, pause)
		led := others.queue[0]
		peer, err := others.handOver(ctx)
		if err != nil {
			return err
		}
		if err := led.session.Close(); err != nil {
			return err
		}
		if i >= warmUp {
			q.ours.Add(ours)
			q.floor.Add(floor)
			q.peer.Add(peer)
			q.age.Add(age)
		}
	}
	return nil
}

func (q *samples) judge(r *report.Result, plot string) {
	f50, f99 := q.floor.Median(), q.floor.P(0.99)
	o50, o99 := q.ours.Median(), q.ours.P(0.99)
	r.Row(q.name+": floor", "", p50p99(f50, f99), report.Context)
	r.Row(q.name+": handover p50", fmt.Sprintf("≤ %.1f × floor = %s", handoverP50, ms(handoverP50*f50)),
		fmt.Sprintf("%s = %.2f ×", ms(o50), o50/f50), report.Judge(o50 <= handoverP50*f50))
	r.Row(q.name+": handover p99", fmt.Sprintf("≤ %.0f × floor = %s", handoverP99, ms(handoverP99*f99)),
		fmt.Sprintf("%s = %.2f ×", ms(o99), o99/f99), report.Judge(o99 <= handoverP99*f99))
	r.Row(q.name+": `concurrency.Election`", "", p50p99(q.peer.Median(), q.peer.P(0.99)), report.Context)
	r.Keep(q.ours, q.floor, q.peer)
	r.Plots = append(r.Plots, report.Plot{Name: plot, Title: "Graceful handover, " + q.name,
		Series: []*sample.Series{q.ours, q.floor, q.peer}})
}
