package target

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/goverse/goverse/bench/internal/electproc"
	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/clustertest/fault"
)

// clientGoNote says how client-go runs; its argument is the TTL.
const clientGoNote = "client-go runs its own elector with LeaseDuration %v and its other times in the proportion of " +
	"Kubernetes' defaults (15, 10 and 2 s). Its record is in etcd, kept as by `cluster/elector`; there is no API " +
	"server, and so no LeaseLock."

// compareElections compares the same program with several libraries for leader election.
func compareElections(ctx context.Context, env Env, r *report.Result) error {
	ttl := time.Duration(env.pick(10, 2)) * time.Second
	sizes, rounds, pairs := []int{2, env.pick(10, 3)}, env.pick(20, 1), env.pick(8, 1)
	programs := electproc.Programs()
	return withEtcd(func(p *etcdproc.Process) error {
		var handovers [][]*sample.Series // by size and program
		for _, size := range sizes {
			env.Log("elections: %d copies of each program, %d handovers", size, rounds)
			took, err := handOvers(ctx, p, programs, size, rounds, ttl)
			if err != nil {
				return err
			}
			handovers = append(handovers, took)
		}
		env.Log("elections: %d leaders of each program are killed, TTL %v", pairs, ttl)
		killed, err := killLeaders(ctx, p, programs, pairs, ttl)
		if err != nil {
			return err
		}
		env.Log("elections: %d leaders of each program are cut off, TTL %v", pairs, ttl)
		next, distance, err := cutOffLeaders(ctx, p, programs, pairs, ttl)
		if err != nil {
			return err
		}
		for j, size := range sizes {
			tellHandOvers(r, programs, handovers[j], size)
			r.Plots = append(r.Plots, report.Plot{Name: fmt.Sprintf("elections-%d", size),
				Title: fmt.Sprintf("From SIGTERM to the work of the next of %d copies", size), Series: handovers[j]})
		}
		tellKilled(r, programs, killed, ttl)
		tellCutOff(r, programs, next, distance, ttl)
		for _, program := range programs {
			lines, err := program.Lines()
			if err != nil {
				return err
			}
			r.Row("lines of code: "+program.Name, "", fmt.Sprint(lines), report.Context)
		}
		r.Note("Each is a whole program, in bench/internal/electproc: it campaigns, works while it leads, ends the work " +
			"when it no longer leads, campaigns again after a lost session, and gives way when it gets SIGTERM. Lines are " +
			"those of its file that are neither blank nor comments.")
		r.Note("Each copy is a process of its own. The time is from just before the signal to the leader's process until "+
			"the next one's work has begun, as the measuring process reads it. A handover is by SIGTERM; %d of each kind, "+
			"the programs in turns, and each time another copy takes the place of the old one.", rounds)
		r.Note("Killed: %d pairs of each program at once, each leader gets SIGKILL at a random instant of a third of the "+
			"TTL of %v. Only nodes watch each other. Every other leader is replaced at the end of its TTL, also that of "+
			"`cluster/leaderelection` alone.", pairs, ttl)
		r.Note("Cut off: as many pairs; a relay between each leader and etcd drops everything from a random instant on, " +
			"and closes nothing. The distance is from the end of the old one's work to the beginning of the next one's. If " +
			"it is negative, both have worked at once. client-go ends the work of a leader only after it has tried to " +
			"release the lease.")
		r.Note(clientGoNote+" The lock's own lines do not count.", ttl)
		return nil
	})
}

func tellHandOvers(r *report.Result, programs []electproc.Program, took []*sample.Series, size int) {
	recipe := took[slices.IndexFunc(programs, electproc.Recipe.Same)].Median()
	for i, s := range took {
		r.Row(fmt.Sprintf("%d copies, handover: %s", size, programs[i].Name), "", fmt.Sprintf("p50 %s = %.2f × %s; max %s",
			ms(s.Median()), s.Median()/recipe, electproc.Recipe.Name, ms(s.Max())), report.Context)
	}
	r.Keep(took...)
}

func tellKilled(r *report.Result, programs []electproc.Program, took []*sample.Series, ttl time.Duration) {
	for i, s := range took {
		wanted, verdict := "", report.Context
		if programs[i].Same(electproc.Alone) {
			limit := ttl + time.Second
			wanted, verdict = fmt.Sprintf("≤ TTL + 1 s = %v", limit), report.Judge(s.Max() <= float64(limit.Milliseconds()))
		}
		r.Row("killed: "+programs[i].Name, wanted, fmt.Sprintf("p50 %s, max %s", seconds(s.Median()), seconds(s.Max())),
			verdict)
	}
	r.Keep(took...)
}

func tellCutOff(r *report.Result, programs []electproc.Program, next, distance []*sample.Series, ttl time.Duration) {
	for i, s := range next {
		overlaps := 0
		for _, d := range distance[i].Values {
			if d < 0 {
				overlaps++
			}
		}
		wanted, verdict := "", report.Context
		if programs[i].Same(electproc.Alone) {
			limit := ttl + time.Second
			wanted = fmt.Sprintf("≤ TTL + 1 s = %v, 0 at once", limit)
			verdict = report.Judge(s.Max() <= float64(limit.Milliseconds()) && overlaps == 0)
		}
		r.Row("cut off: "+programs[i].Name, wanted, fmt.Sprintf("p50 %s, max %s; in %d of %d both worked at once; smallest "+
			"distance %s", seconds(s.Median()), seconds(s.Max()), overlaps, len(s.Values), ms(distance[i].P(0))), verdict)
	}
	r.Keep(next...)
	r.Keep(distance...)
}

// handOvers stops leaders gracefully, of each program in turns.
func handOvers(ctx context.Context, p *etcdproc.Process, programs []electproc.Program, size, rounds int,
	ttl time.Duration) (took []*sample.Series, err error) {
	var all []*electorate
	defer func() {
		for _, e := range all {
			err = errors.Join(err, e.close())
		}
	}()
	for i, program := range programs {
		e, err := newElectorate(ctx, program, fmt.Sprintf("/handover-%d-%d", size, i), ttl,
			slices.Repeat([]string{p.Endpoint}, size)...)
		all = append(all, e)
		if err != nil {
			return nil, err
		}
		took = append(took, sample.Millis(fmt.Sprintf("%s, %d copies", program.Name, size)))
	}
	for range rounds {
		for i, e := range all {
			rest(ctx, unfresh)
			d, err := e.replace(ctx, syscall.SIGTERM)
			if err != nil {
				return nil, err
			}
			took[i].Add(d)
			if err := e.join(p.Endpoint); err != nil {
				return nil, err
			}
		}
	}
	return took, nil
}

// killLeaders kills the leaders of n pairs of copies of each program, all within a third of the TTL.
func killLeaders(ctx context.Context, p *etcdproc.Process, programs []electproc.Program, n int,
	ttl time.Duration) (took []*sample.Series, err error) {
	for _, program := range programs {
		took = append(took, sample.Millis(program.Name+", killed"))
	}
	times := make([]time.Duration, n*len(programs))
	err = inPairs(ctx, p, programs, n, "/killed", ttl, func(i int, e *electorate, _ *fault.Relay) (err error) {
		times[i], err = e.replace(ctx, os.Kill)
		return err
	})
	for i, d := range times {
		took[i/n].Add(d)
	}
	return took, err
}

// cutOffLeaders cuts the leaders of n pairs of copies of each program off from etcd, all within a third of the TTL.
func cutOffLeaders(ctx context.Context, p *etcdproc.Process, programs []electproc.Program, n int,
	ttl time.Duration) (next, distance []*sample.Series, err error) {
	for _, program := range programs {
		next = append(next, sample.Millis(program.Name+", cut off"))
		distance = append(distance, sample.Millis(program.Name+", distance"))
	}
	led, stopped := make([]time.Duration, n*len(programs)), make([]time.Duration, n*len(programs))
	err = inPairs(ctx, p, programs, n, "/cut-off", ttl, func(i int, e *electorate, relay *fault.Relay) (err error) {
		led[i], stopped[i], err = e.cutOff(ctx, relay)
		return err
	})
	for i, d := range led {
		next[i/n].Add(d)
		distance[i/n].Add(d - stopped[i])
	}
	return next, distance, err
}

// inPairs starts n pairs of copies of each program, the leader behind a relay. It then calls try for all of them at
// once, each at a random instant of a third of the TTL, with its number in order of the programs.
func inPairs(ctx context.Context, p *etcdproc.Process, programs []electproc.Program, n int, prefix string,
	ttl time.Duration, try func(i int, e *electorate, relay *fault.Relay) error) (err error) {
	var all []*electorate
	var relays []*fault.Relay
	defer func() {
		for i, e := range all {
			err = errors.Join(err, e.close(), relays[i].Close())
		}
	}()
	for i := range n * len(programs) {
		relay, err := fault.NewRelay(p.Endpoint)
		if err != nil {
			return err
		}
		e, err := newElectorate(ctx, programs[i/n], fmt.Sprintf("%s-%d", prefix, i), ttl, relay.Address(), p.Endpoint)
		all, relays = append(all, e), append(relays, relay)
		if err != nil {
			return err
		}
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, e := range all {
		wg.Go(func() {
			rest(ctx, unfresh+rand.N(ttl/3))
			errs[i] = try(i, e, relays[i])
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
