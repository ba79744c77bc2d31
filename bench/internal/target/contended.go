package target

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
)

const (
	contendedGoal = 1.5
	// sides is the number of sessions that the contenders are spread over, like as many processes.
	sides = 2
	// courtesy is the time for which a contender holds a lock, so that the others notice that it is taken.
	// Otherwise the contender that released it would often take it again before them.
	courtesy = 2 * time.Millisecond
)

// contended measures the handover of one lock under constant contention.
func contended(ctx context.Context, env Env, r *report.Result) error {
	servers, closeServers, err := withServers(ctx)
	if err != nil {
		return err
	}
	defer closeServers()
	for _, contenders := range []int{2, 8, 64} {
		name := func(what string) string { return fmt.Sprintf("%s, %d contenders", what, contenders) }
		floor, arms := sample.Millis(name("delete to watch event")), []*rival(nil)
		if err := withEtcd(func(p *etcdproc.Process) (err error) {
			arms, err = contend(ctx, p, present(servers), contenders, env.pick(5, 1), env.pick(200, 10), floor, name)
			return err
		}); err != nil {
			return fmt.Errorf("%d contenders: %w", contenders, err)
		}
		for i, arm := range arms {
			said := fmt.Sprintf("%s; %.0f locks/s", p50p99(arm.handovers.Median(), arm.handovers.P(0.99)), arm.rates.Median())
			r.Keep(arm.handovers, arm.rates)
			if arm.name == sessionName {
				r.Row(arm.handovers.Name, fmt.Sprintf("p50 ≤ %.1f ms", sessionHandover), said,
					report.Judge(arm.handovers.Median() <= sessionHandover))
				continue
			}
			if i > 0 {
				r.Row(arm.handovers.Name, "", said, report.Context)
				continue
			}
			ratio, busy := arm.handovers.Median()/floor.Median(), arm.handovers.Median()/arms[1].handovers.Median()
			r.Row(arm.handovers.Name, fmt.Sprintf("p50 ≤ %.1f × delete to watch event", contendedGoal),
				fmt.Sprintf("%s: %.2f ×; %.2f × %s", said, ratio, busy, bareName), report.Judge(ratio <= contendedGoal))
			r.Row(floor.Name, "", p50p99(floor.Median(), floor.P(0.99)), report.Context)
			r.Keep(floor)
		}
	}
	sayAbsent(servers, r)
	r.Note("A handover runs from the call of `Release` of one holder until `Acquire` of another one has returned. "+
		"Contenders take the lock, give it back, and want it "+
		"again at once; they are spread over %d sessions with a connection each, as are those of `concurrency.Mutex`, "+
		"each of which needs a session of its own. The arms take turns, in rounds. Floor: from "+
		"the call of `Delete` until as many bare watchers have the event, one at a time.", sides)
	r.Note("%s are the same contenders with nothing but what a lock in etcd needs at least: a transaction to queue, a "+
		"deletion to leave, one standing watch a connection. They show what a "+
		"handover costs while another one queues at the same time; the floor's etcd has nothing else to do.", bareName)
	r.Note("Locks a second are those of the same rounds, by all together. With redsync that is mostly the one "+
		"that had it before, so its handovers are measured apart: each holds the lock for %v and wants it "+
		"again only when another one has had it.", courtesy)
	r.Note(peersNote)
	return nil
}

// rival holds the measurements of one library.
type rival struct {
	library
	all              []mutual
	handovers, rates *sample.Series
}

func contend(ctx context.Context, p *etcdproc.Process, servers []library, contenders, rounds, handovers int,
	floor *sample.Series, name func(string) string) ([]*rival, error) {
	clients, closeAll, err := dial(ctx, p.Endpoint, 2*sides)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	w, err := watch(ctx, clients, "/floor/", contenders)
	if err != nil {
		return nil, err
	}
	defer w.close()
	libraries, closeLocks, err := inEtcd(ctx, clients[:sides], clients[sides:])
	if err != nil {
		return nil, err
	}
	defer closeLocks()
	bare, err := bareQueues(ctx, clients[:sides])
	if err != nil {
		return nil, err
	}
	defer bare.close()
	var arms []*rival
	for _, l := range slices.Concat(libraries[:1], []library{bare}, libraries[1:], servers) {
		all, err := l.wanters(ctx, contenders, one)
		if err != nil {
			return nil, err
		}
		arms = append(arms, &rival{library: l, all: all, handovers: sample.Millis(name(l.name)),
			rates: &sample.Series{Name: name(l.name) + ": all", Unit: "locks/s"}})
	}
	few := max(handovers/10, 5)
	for round := range rounds + 1 {
		for _, arm := range arms {
			n := handovers
			if arm.slow {
				n = few
			}
			took, rate, err := handoversOf(arm.all, n, 0)
			if err == nil && arm.barges {
				took, _, err = handoversOf(arm.all, n, courtesy)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", arm.name, err)
			}
			if round == 0 {
				continue // the first round warms up
			}
			arm.rates.Values = append(arm.rates.Values, rate)
			for _, d := range took {
				arm.handovers.Add(d)
			}
		}
		for range few {
			rest(ctx, time.Millisecond)
			if _, err := w.put(ctx, 0); err != nil {
				return nil, err
			}
			d, err := w.remove(ctx, 0)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				floor.Add(d)
			}
		}
	}
	return arms, nil
}
