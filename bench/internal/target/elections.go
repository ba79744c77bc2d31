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
)

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
		for j, size := range sizes {
			tellHandOvers(r, programs, handovers[j], size)
			r.Plots = append(r.Plots, report.Plot{Name: fmt.Sprintf("elections-%d", size),
				Title: fmt.Sprintf("From SIGTERM to the work of the next of %d copies", size), Series: handovers[j]})
		}
		tellKilled(r, programs, killed, ttl)
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
		r.Note("client-go runs its own elector with LeaseDuration %v and its other times in the proportion of Kubernetes' "+
			"defaults (15, 10 and 2 s). Its record is in etcd, kept as by `cluster/elector`; there is no API server, and so "+
			"no LeaseLock. The lock's own lines do not count.", ttl)
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
		e, err := newElectorate(ctx, program, p.Endpoint, fmt.Sprintf("/handover-%d-%d", size, i), ttl, size)
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
			if err := e.join(); err != nil {
				return nil, err
			}
		}
	}
	return took, nil
}

// killLeaders kills the leaders of n pairs of copies of each program, all within a third of the TTL.
func killLeaders(ctx context.Context, p *etcdproc.Process, programs []electproc.Program, n int,
	ttl time.Duration) (took []*sample.Series, err error) {
	var all []*electorate
	defer func() {
		for _, e := range all {
			err = errors.Join(err, e.close())
		}
	}()
	for i, program := range programs {
		for j := range n {
			e, err := newElectorate(ctx, program, p.Endpoint, fmt.Sprintf("/killed-%d-%d", i, j), ttl, 2)
			all = append(all, e)
			if err != nil {
				return nil, err
			}
		}
		took = append(took, sample.Millis(program.Name+", killed"))
	}
	times, errs := make([]time.Duration, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	for i, e := range all {
		wg.Go(func() {
			rest(ctx, unfresh+rand.N(ttl/3))
			times[i], errs[i] = e.replace(ctx, os.Kill)
		})
	}
	wg.Wait()
	for i, d := range times {
		took[i/n].Add(d)
	}
	return took, errors.Join(errs...)
}
