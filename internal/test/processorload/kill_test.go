//go:build unix

package processorload

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/child"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/pgserver"
	"github.com/goverse/goverse/internal/wait"
)

var killRounds = flag.Int("kill.rounds", 0,
	"how often each request is made, in processes of its own; 0: once, in the same")

// killed is a request during which the leader is killed. do calls kill when the request begins.
type killed struct {
	name string
	do   func(o *operator, kill func()) error
}

var allKilled = []killed{
	{"pause", func(o *operator, kill func()) error { kill(); return o.pause() }},
	{"resume", func(o *operator, kill func()) error {
		if err := processor.Pause(o.ctx, o.m, o.name, processor.PauseRequest{}); err != nil {
			return err
		}
		kill()
		return processor.Resume(o.ctx, o.m, o.name, processor.PauseRequest{})
	}},
	{"rewind", func(o *operator, kill func()) error { kill(); return o.rewind() }},
	{"reset", func(o *operator, kill func()) error { kill(); return o.rewindAt(0) }},
	{"retry", func(o *operator, kill func()) error { return o.withParked(kill, o.retry) }},
	{"drop", func(o *operator, kill func()) error { return o.withParked(kill, o.drop) }},
	{"unfence", func(o *operator, kill func()) error { kill(); return o.unfence() }},
}

// withParked makes a request about a parked event, as soon as there is one.
func (o *operator) withParked(kill func(), request func() error) error {
	err := o.await("an event is parked", func() (bool, error) {
		e, err := o.pick()
		return e != 0, err
	})
	if err != nil {
		return err
	}
	kill()
	return request()
}

// processes is a fleet of real processes.
type processes struct {
	ctx     context.Context
	cfg     workerConfig
	m       processor.Manager
	starter *child.Starter
	// readEffects returns the effects after the first n.
	readEffects func(n int) ([]int, error)

	mu      sync.Mutex
	seen    []int // effects
	started int
	workers map[string]*exec.Cmd
}

func (p *processes) undoes() bool { return p.cfg.Postgres != "" }

func (p *processes) effects() ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	more, err := p.readEffects(len(p.seen))
	p.seen = append(p.seen, more...)
	return slices.Clone(p.seen), err
}

func (p *processes) eventsFile() string { return filepath.Join(p.cfg.Dir, "events") }

func (p *processes) lastEvent() int {
	info, err := os.Stat(p.eventsFile())
	if err != nil {
		panic(err)
	}
	return int(info.Size())
}

func (p *processes) heal(event int) {
	if err := os.WriteFile(healedFile(p.cfg.Dir, event), nil, 0o600); err != nil {
		panic(err)
	}
}

// grow adds events until ctx ends.
func (p *processes) grow(ctx context.Context) error {
	events, err := os.OpenFile(p.eventsFile(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for wait.For(ctx, 5*time.Millisecond) {
		if _, err := events.WriteString("xx"); err != nil {
			return err
		}
	}
	return events.Close()
}

// start starts a worker.
func (p *processes) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started++
	cfg := p.cfg
	cfg.ID = fmt.Sprintf("worker %d", p.started)
	text, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	if err := p.starter.Start(cmd); err != nil {
		return err
	}
	p.workers[cfg.ID] = cmd
	return nil
}

// leader returns a worker that leads, according to its report.
func (p *processes) leader() (id string) {
	for wait.For(p.ctx, time.Millisecond) {
		s, err := p.m.Look(p.ctx, p.cfg.Name)
		if err != nil || !s.ReportCurrent() || !s.Report.Leading {
			continue
		}
		p.mu.Lock()
		lives := p.workers[s.Report.Node] != nil
		p.mu.Unlock()
		if lives {
			return s.Report.Node
		}
	}
	return ""
}

// killWorker kills a process, and starts another one.
func (p *processes) killWorker(id string) (at time.Time) {
	p.mu.Lock()
	cmd := p.workers[id]
	delete(p.workers, id)
	p.mu.Unlock()
	if cmd == nil {
		return time.Now()
	}
	if err := cmd.Process.Kill(); err != nil {
		panic(err) // only this method ends it
	}
	at = time.Now()
	_ = cmd.Wait() // killed
	if err := p.start(); err != nil {
		panic(err)
	}
	return at
}

func (p *processes) kill(bool) { p.killWorker(p.leader()) }

func (p *processes) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cmd := range p.workers {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	p.workers = nil
	p.starter.Close()
}

// runKilled makes each of the requests so many times, kills the leader in the middle of each, and returns what the
// check finds.
func runKilled(t *testing.T, p *processes, requests []killed, rounds int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p.ctx, p.starter, p.workers, p.cfg.Dir = ctx, child.NewStarter(), map[string]*exec.Cmd{}, t.TempDir()
	defer p.stop()
	require.NoError(t, os.WriteFile(p.eventsFile(), nil, 0o600))
	o := &operator{fleet: p, ctx: ctx, m: p.m, name: p.cfg.Name, random: rand.New(rand.NewPCG(7, 1)),
		dropped: map[int]bool{}}
	growing, stopGrowth := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() {
		if err := p.grow(growing); err != nil {
			panic(err)
		}
	})
	require.NoError(t, p.start())
	require.NoError(t, p.start())
	middle, began := 0, time.Now()
	err := func() error {
		for i := range rounds * len(requests) {
			request := requests[i%len(requests)]
			inTime, err := o.killDuring(p, request)
			if err != nil {
				return fmt.Errorf("%s %d: %w", request.name, i, err)
			}
			if inTime {
				middle++
			}
		}
		return nil
	}()
	stopGrowth()
	beside.Wait()
	if err == nil {
		err = o.finish()
	}
	p.stop()
	p.starter = child.NewStarter() // for the deferred stop
	if err != nil {
		return err
	}
	effects, err := p.effects()
	require.NoError(t, err)
	h := o.history(effects)
	t.Logf("%d requests in %v, the leader killed before %d were over; %d effects of %d events, %d processes, %d rewinds, "+
		"%d events dropped", rounds*len(requests), time.Since(began).Round(time.Second), middle, len(effects), h.last,
		p.started, len(o.rewinds), len(o.dropped))
	return h.check()
}

// killDuring makes a request and kills the leader at a moment from its beginning on. It reports whether the leader was
// dead before the request was over.
func (o *operator) killDuring(p *processes, request killed) (inTime bool, err error) {
	if err := o.progress(); err != nil {
		return false, err
	}
	var killing sync.WaitGroup
	var at, over time.Time
	delay := time.Duration(o.random.IntN(1000)) * time.Microsecond << o.random.IntN(7) // up to 64 ms, mostly short
	together := o.random.IntN(2) == 0
	err = request.do(o, func() {
		id, now := p.leader(), make(chan struct{})
		killing.Go(func() {
			if together {
				close(now)
			} else {
				wait.For(o.ctx, delay)
			}
			at = p.killWorker(id)
		})
		if together {
			<-now
		}
	})
	over = time.Now()
	killing.Wait()
	return at.Before(over), err
}

// alone is a fleet with PostgreSQL alone.
func alone(t *testing.T, url, name, fault string) *processes {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	m, err := postgres.New(postgres.Config{DB: pool, Table: table})
	require.NoError(t, err)
	require.NoError(t, m.CreateTables(t.Context()))
	_, err = pool.Exec(t.Context(), "create table if not exists effect (n bigserial primary key, name text, event int)")
	require.NoError(t, err)
	last := int64(0)
	return &processes{cfg: workerConfig{Name: name, Postgres: url, Fault: fault}, m: m,
		readEffects: func(int) (all []int, err error) {
			rows, err := pool.Query(context.Background(), "select n, event from effect where name = $1 and n > $2 order by n",
				name, last)
			if err != nil {
				return nil, err
			}
			var event int
			_, err = pgx.ForEachRow(rows, []any{&last, &event}, func() error { all = append(all, event); return nil })
			return all, err
		}}
}

// withEtcd is a fleet with etcd, whose effects are lines of a file.
func withEtcd(t *testing.T, endpoint, name string) *processes {
	t.Helper()
	m, err := processor.NewEtcd(processor.EtcdConfig{Client: etcdtest.Dial(t, endpoint), Prefix: "/" + name})
	require.NoError(t, err)
	p := &processes{cfg: workerConfig{Name: name, Etcd: endpoint}, m: m}
	p.readEffects = func(n int) (all []int, err error) {
		text, err := os.ReadFile(filepath.Join(p.cfg.Dir, "effects"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, line := range strings.Fields(string(text))[n:] {
			event, err := strconv.Atoi(line)
			if err != nil {
				return nil, err
			}
			all = append(all, event)
		}
		return all, nil
	}
	return p
}

// runAll makes all requests once with one fleet, or with the flag each so many times with a fleet of its own.
func runAll(t *testing.T, fleet func(t *testing.T, name string) *processes) {
	if *killRounds == 0 {
		require.NoError(t, runKilled(t, fleet(t, "all"), allKilled, 1))
		return
	}
	for _, k := range allKilled {
		t.Run(k.name, func(t *testing.T) {
			require.NoError(t, runKilled(t, fleet(t, k.name), []killed{k}, *killRounds))
		})
	}
}

// Real processes, whose leader is killed with SIGKILL in the middle of each request of an operator: with PostgreSQL
// alone each event takes effect exactly once, and once more after each rewind.
func TestLeaderKilledWithPostgresAlone(t *testing.T) {
	url := pgserver.StartForTest(t).URL()
	runAll(t, func(t *testing.T, name string) *processes { return alone(t, url, name, "") })
}

// The same with etcd, where the events of the batch in flight may be handled again after a kill.
func TestLeaderKilledWithEtcd(t *testing.T) {
	endpoint := etcdtest.Start(t).Endpoint()
	runAll(t, func(t *testing.T, name string) *processes { return withEtcd(t, endpoint, name) })
}

// Faults in the processes and in a request are found.
func TestFaultsOfProcessesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	url := pgserver.StartForTest(t).URL()
	requests := map[string]killed{}
	for _, k := range allKilled {
		requests[k.name] = k
	}
	// A leader that is killed before it acknowledges hides the fault of its acknowledgement.
	requests["pause"] = killed{"pause", func(o *operator, kill func()) error {
		err := o.pause()
		kill()
		return err
	}}
	requests["retry"] = killed{"retry", func(o *operator, kill func()) error {
		return o.withParked(kill, func() error {
			parked, err := o.m.Parked(o.ctx, o.name)
			for _, p := range parked {
				e, _ := strconv.Atoi(string(p.Position))
				o.heal(e) // a retry that fails has no effect
			}
			return errors.Join(err, o.retry())
		})
	}}
	for i, c := range []struct {
		request, fault, says string
		rounds               int // a fault that is found at once ends them
	}{
		{"retry", faultRetryTwice, "cannot follow", 6},
		// Half of the pauses kill the leader with the batch that it should have waited for.
		{"pause", faultPauseEarly, "during an acknowledged pause", 60},
		{"rewind", "", "cannot follow", 6},
	} {
		p := alone(t, url, fmt.Sprintf("faulty-%d", i), c.fault)
		if c.fault == "" {
			p.m = careless{p.m}
		}
		err := runKilled(t, p, []killed{requests[c.request]}, c.rounds)
		require.ErrorContains(t, err, c.says, c.request)
	}
}
