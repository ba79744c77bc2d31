package target

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/goverse/goverse/bench/internal/electproc"
	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/crash/suspicion"
)

// compareStopped compares the same program with several libraries for leader election while the leader's process stands
// still.
func compareStopped(ctx context.Context, env Env, r *report.Result) error {
	ttls, pairs := []time.Duration{10 * time.Second, 30 * time.Second}, env.pick(8, 1)
	if env.Quick {
		ttls = []time.Duration{suspicion.LeastSilenceTTL}
	}
	programs := electproc.Programs()
	programs = slices.Insert(programs, 2, electproc.Leased)
	for _, ttl := range ttls {
		env.Log("stopped: %d leaders of each program are stopped, TTL %v", pairs, ttl)
		if err := withEtcd(func(p *etcdproc.Process) error {
			next, stale, err := stopLeaders(ctx, p, programs, pairs, ttl)
			if err != nil {
				return err
			}
			tellStopped(r, programs, next, stale, ttl)
			return nil
		}); err != nil {
			return err
		}
	}
	r.Note("The programs of *elections*, each copy a process of its own. %d pairs of each program at once; each leader "+
		"gets SIGSTOP at a random instant of a third of the TTL, and SIGCONT when the next one works. The time is from "+
		"just before SIGSTOP until the next one's work has begun, as the measuring process reads it. After SIGCONT both "+
		"work, until the old one ends its work.", pairs)
	r.Note("A node has a silence time-out of %v by default, `CrashDetection.SilenceTimeout`. Without it a leader that "+
		"stands still is replaced at the end of its TTL.", suspicion.DefaultSilenceTimeout)
	r.Note(clientGoNote, "TTL")
	return nil
}

// stopLeaders stops the processes of the leaders of n pairs of copies of each program, all within a third of the TTL,
// and lets them continue when the next ones work. stale has the times for which both work then.
func stopLeaders(ctx context.Context, p *etcdproc.Process, programs []electproc.Program, n int,
	ttl time.Duration) (next, stale []*sample.Series, err error) {
	for _, program := range programs {
		next = append(next, sample.Millis(fmt.Sprintf("%s, TTL %v", program.Name, ttl)))
		stale = append(stale, sample.Millis(fmt.Sprintf("%s, TTL %v, stale work", program.Name, ttl)))
	}
	led, ended := make([]time.Duration, n*len(programs)), make([]time.Duration, n*len(programs))
	err = inPairs(ctx, p, programs, n, "/stopped", ttl, func(i int, e *electorate, _ *fault.Relay) (err error) {
		led[i], ended[i], err = e.stopLeader(ctx)
		return err
	})
	for i, d := range led {
		next[i/n].Add(d)
		stale[i/n].Add(ended[i])
	}
	return next, stale, err
}

// stopLeader stops the leader's process until the next one works. It returns the time until then, and the time from
// when the former leader continues until its work ends.
func (e *electorate) stopLeader(ctx context.Context) (led, stale time.Duration, err error) {
	old := e.leader
	started := time.Now()
	if err := old.Signal(syscall.SIGSTOP); err != nil {
		return 0, 0, err
	}
	next, at, err := e.next(ctx)
	if err != nil {
		return 0, 0, err
	}
	e.leader = next
	continued := time.Now()
	if err := old.Signal(syscall.SIGCONT); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*e.ttl+settling)
	defer cancel()
	select {
	case end := <-old.stopped:
		return at.Sub(started), end.Sub(continued), nil
	case <-ctx.Done():
		return 0, 0, fmt.Errorf("%s: wait until the work of a leader ends that was stopped: %w", e.program.Name, ctx.Err())
	}
}

// tellStopped writes the rows of one TTL.
func tellStopped(r *report.Result, programs []electproc.Program, next, stale []*sample.Series, ttl time.Duration) {
	for i, s := range next {
		wanted, verdict := "", report.Context
		switch {
		case programs[i].Same(electproc.Alone):
			limit := ttl + time.Second
			wanted = fmt.Sprintf("≤ TTL + 1 s = %v", limit)
			verdict = report.Judge(s.Max() <= float64(limit.Milliseconds()))
		case programs[i].Same(electproc.Node):
			most := suspicion.DefaultSilenceTimeout
			median := most * 6 / 7
			wanted = fmt.Sprintf("p50 ≤ %v, max ≤ %v", median.Round(time.Millisecond), most.Round(time.Millisecond))
			verdict = report.Judge(s.Median() <= float64(median.Milliseconds()) && s.Max() <= float64(most.Milliseconds()))
		}
		r.Row(fmt.Sprintf("TTL %v: %s", ttl, programs[i].Name), wanted, fmt.Sprintf("p50 %s, max %s; its work ended up to "+
			"%s after it continued", seconds(s.Median()), seconds(s.Max()), ms(stale[i].Max())), verdict)
	}
	r.Keep(next...)
	r.Keep(stale...)
}
