package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/bench/internal/callproc"
	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/reexec"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
)

const (
	remoteLatencyGoal = 0.75 // × raw, one caller
	remote64Goal      = 3.5  // × raw
	remote512Goal     = 4.5
	outsideGoal       = 0.9
	streamGoal        = 0.85
	// remoteFor and remoteBriefly are the durations of one round of one arm.
	remoteFor, remoteBriefly = time.Second, 30 * time.Millisecond
	mostCallers              = 512
	streamBytes              = kib

	rawName = "raw gRPC"
)

// remoteArm is one way to call another process.
type remoteArm struct {
	name   string
	caller *callproc.Caller
	// pids are the ids of the processes that take part in a call.
	pids []int
	keys bool // the called service has objects
}

// remoteArms holds all arms.
type remoteArms struct {
	raw, actors, ours, direct, through *remoteArm

	keys  []string // of objects at the called node
	close []func() error
}

// remoteCalls measures calls of objects at another node, in turns with the peers.
func remoteCalls(ctx context.Context, env Env, r *report.Result) error {
	lasts, rounds := remoteFor, env.pick(9, 1)
	if env.Quick {
		lasts = remoteBriefly
	}
	return withEtcd(func(p *etcdproc.Process) (err error) {
		a := &remoteArms{}
		defer func() { err = errors.Join(err, a.stop()) }()
		if err := a.start(ctx, p.Endpoint); err != nil {
			return err
		}
		turns := func(l callproc.Load, arms ...*remoteArm) ([]*taken, error) {
			l.Lasts = lasts
			return a.inTurns(ctx, l, arms, rounds)
		}
		for _, bytes := range []int{1, 4 * kib} {
			curve := report.Curve{Name: fmt.Sprintf("T13b-%d", bytes), Title: fmt.Sprintf("Calls to another process, %s",
				sizeOf(bytes)), X: "callers", Y: "calls/s",
				Lines: []report.Line{{Name: a.raw.name}, {Name: a.ours.name}, {Name: a.actors.name}}}
			for _, callers := range []int{1, 64, mostCallers} {
				env.Log("T13b: callers: %d, %s each", callers, sizeOf(bytes))
				arms := []*remoteArm{a.raw, a.ours, a.actors} // the lines, in the order of the curve
				if callers == 64 {
					arms = append(arms, a.direct, a.through)
				}
				all, err := turns(callproc.Load{Kind: callproc.Unary, Callers: callers, Bytes: bytes}, arms...)
				if err != nil {
					return err
				}
				a.reportCalls(r, callers, bytes, all)
				for i := range curve.Lines {
					curve.Lines[i].Points = append(curve.Lines[i].Points, report.Point{X: float64(callers), Y: all[i].rate.Median()})
				}
			}
			r.Curves = append(r.Curves, curve)
		}
		for _, kind := range []callproc.Kind{callproc.Download, callproc.Chat} {
			env.Log("T13b: streams, %s", kind)
			all, err := turns(callproc.Load{Kind: kind, Bytes: streamBytes}, a.raw, a.direct, a.through, a.ours)
			if err != nil {
				return err
			}
			a.reportStreams(r, kind, all)
		}
		a.notes(r, rounds, lasts)
		return nil
	})
}

// start starts the processes. The caller must call stop, also after an error.
func (a *remoteArms) start(ctx context.Context, etcd string) error {
	server := func(start func() (*reexec.Process, error)) (*reexec.Process, error) {
		p, err := start()
		if err == nil {
			a.close = append(a.close, p.Stop)
		}
		return p, err
	}
	arm := func(name string, caller *callproc.Caller, err error, beside ...*reexec.Process) (*remoteArm, error) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		a.close = append(a.close, caller.Stop)
		out := &remoteArm{name: name, caller: caller, pids: []int{caller.Pid()}}
		for _, p := range beside {
			out.pids = append(out.pids, p.Pid())
		}
		return out, nil
	}
	grpcServer, err := server(callproc.StartGRPC)
	if err != nil {
		return err
	}
	actors, err := server(callproc.StartProtoactor)
	if err != nil {
		return err
	}
	owner, err := server(func() (*reexec.Process, error) { return callproc.StartObjects(etcd) })
	if err != nil {
		return err
	}
	caller, err := callproc.StartGRPCCaller(grpcServer.Said)
	if a.raw, err = arm(rawName, caller, err, grpcServer); err != nil {
		return err
	}
	caller, err = callproc.StartProtoactorCaller(actors.Said)
	if a.actors, err = arm(protoactorName, caller, err, actors); err != nil {
		return err
	}
	caller, err = callproc.StartObjectsCaller(etcd, owner.Said)
	if a.ours, err = arm(oursName, caller, err, owner); err != nil {
		return err
	}
	caller, err = callproc.StartGRPCCaller(owner.Said)
	if a.direct, err = arm("a gRPC client, at the owner", caller, err, owner); err != nil {
		return err
	}
	caller, err = callproc.StartGRPCCaller(a.ours.caller.Address)
	if a.through, err = arm("a gRPC client, through another node", caller, err, a.ours.caller.Process, owner); err != nil {
		return err
	}
	a.ours.keys, a.direct.keys, a.through.keys = true, true, true
	a.keys, err = a.ours.caller.Keys(ctx, mostCallers)
	return err
}

// stop ends the processes, callers before the processes that they call.
func (a *remoteArms) stop() error {
	var errs []error
	for i := len(a.close) - 1; i >= 0; i-- {
		errs = append(errs, a.close[i]())
	}
	return errors.Join(errs...)
}

// taken holds the results of one arm under one load.
type taken struct {
	arm                 *remoteArm
	rate, p50, p99      *sample.Series
	cpu                 *sample.Series // of all its processes, per call
	ratio, latencyRatio *sample.Series // to the first arm in the same round
}

func newTaken(arm *remoteArm, l callproc.Load) *taken {
	name := fmt.Sprintf("%s, %s of %s", arm.name, l.Kind, sizeOf(l.Bytes))
	if l.Kind == callproc.Unary {
		name = fmt.Sprintf("%s, %d callers, %s", arm.name, l.Callers, sizeOf(l.Bytes))
	}
	series := func(what, unit string) *sample.Series { return &sample.Series{Name: name + what, Unit: unit} }
	return &taken{arm: arm, rate: series("", "1/s"), p50: series(": p50", "µs"), p99: series(": p99", "µs"),
		cpu: series(": processor", "µs"), ratio: series(": to "+rawName, "×"), latencyRatio: series(": p50 to "+rawName, "×")}
}

// inTurns puts one load on each arm in turns. The other arms are compared with the first one.
func (a *remoteArms) inTurns(ctx context.Context, l callproc.Load, arms []*remoteArm, rounds int) ([]*taken, error) {
	var all []*taken
	for _, arm := range arms {
		all = append(all, newTaken(arm, l))
	}
	for round := range rounds + 1 {
		for _, t := range all {
			rest(ctx, pause)
			l.Keys = nil
			if t.arm.keys {
				l.Keys = a.keys[:max(1, l.Callers)]
			}
			before, err := cpuTimesOf(t.arm.pids)
			if err != nil {
				return nil, err
			}
			f, err := t.arm.caller.Measure(ctx, l)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.rate.Name, err)
			}
			after, err := cpuTimesOf(t.arm.pids)
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first round warms up
				t.add(f, after-before, all[0])
			}
		}
	}
	return all, nil
}

func (t *taken) add(f callproc.Figures, cpu time.Duration, first *taken) {
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	add := func(s *sample.Series, v float64) { s.Values = append(s.Values, v) }
	add(t.rate, float64(f.Calls)/f.Took.Seconds())
	add(t.p50, micros(f.P50))
	add(t.p99, micros(f.P99))
	add(t.cpu, micros(cpu)/float64(f.Calls))
	last := len(t.rate.Values) - 1
	add(t.ratio, t.rate.Values[last]/first.rate.Values[last])
	add(t.latencyRatio, t.p50.Values[last]/first.p50.Values[last])
}

// measured returns a cell of the table.
func (t *taken) measured(unit string, latencies bool) string {
	s := fmt.Sprintf("%.0f %s", t.rate.Median(), unit)
	if t.arm.name != rawName {
		s += fmt.Sprintf(" = %.2f × %s (least %.2f)", t.ratio.Median(), rawName, t.ratio.P(0))
	}
	if latencies {
		s += fmt.Sprintf("; p50 %.0f µs, p99 %.0f µs", t.p50.Median(), t.p99.Median())
	}
	return s + fmt.Sprintf("; %.1f µs of processor each", t.cpu.Median())
}

func (t *taken) keep(r *report.Result, latencies bool) {
	r.Keep(t.rate, t.cpu)
	if latencies {
		r.Keep(t.p50, t.p99)
	}
	if t.arm.name != rawName {
		r.Keep(t.ratio)
	}
}

func (a *remoteArms) reportCalls(r *report.Result, callers, bytes int, all []*taken) {
	by := map[*remoteArm]*taken{}
	for _, t := range all {
		by[t.arm] = t
		t.keep(r, true)
	}
	ours, actors := by[a.ours], by[a.actors]
	goal := map[int]float64{64: remote64Goal, mostCallers: remote512Goal}[callers]
	name := fmt.Sprintf("%d callers, %s", callers, sizeOf(bytes))
	if callers == 1 {
		name = fmt.Sprintf("1 caller, %s", sizeOf(bytes))
		r.Row(name+": "+oursName, "", ours.measured("calls/s", true), report.Context)
		r.Row("… p50", fmt.Sprintf("≤ %.2f × %s", remoteLatencyGoal, rawName), fmt.Sprintf("%.2f × (most %.2f)",
			ours.latencyRatio.Median(), ours.latencyRatio.Max()),
			report.Judge(ours.latencyRatio.Median() <= remoteLatencyGoal))
	} else {
		r.Row(name+": "+oursName, fmt.Sprintf("≥ %.1f × %s", goal, rawName), ours.measured("calls/s", true),
			report.Judge(ours.ratio.Median() >= goal))
	}
	ahead := &sample.Series{Name: ours.rate.Name + ": to " + protoactorName, Unit: "×"}
	for i, v := range ours.rate.Values {
		ahead.Values = append(ahead.Values, v/actors.rate.Values[i])
	}
	r.Keep(ahead)
	target, verdict := "", report.Context
	if callers == 64 {
		target, verdict = "> 1 ×", report.Judge(ahead.Median() > 1)
	}
	r.Row("… to "+protoactorName, target, fmt.Sprintf("%.2f × (least %.2f)", ahead.Median(), ahead.P(0)), verdict)
	if t := by[a.direct]; t != nil {
		r.Row("… "+t.arm.name, fmt.Sprintf("≥ %.1f × %s", outsideGoal, rawName), t.measured("calls/s", true),
			report.Judge(t.ratio.Median() >= outsideGoal))
	}
	for _, arm := range []*remoteArm{a.through, a.raw, a.actors} {
		if t := by[arm]; t != nil {
			r.Row("… "+arm.name, "", t.measured("calls/s", true), report.Context)
		}
	}
}

func (a *remoteArms) reportStreams(r *report.Result, kind callproc.Kind, all []*taken) {
	what := map[callproc.Kind]string{callproc.Download: "a stream from the server",
		callproc.Chat: "a stream both ways, each message returned"}[kind]
	for i, t := range all {
		t.keep(r, false)
		target, verdict, name := "", report.Context, "… "+t.arm.name
		if i == 0 {
			name = fmt.Sprintf("%s, %s: %s", what, sizeOf(streamBytes), t.arm.name)
		}
		if t.arm == a.direct && kind == callproc.Download {
			target = fmt.Sprintf("≥ %.2f × %s", streamGoal, rawName)
			verdict = report.Judge(t.ratio.Median() >= streamGoal)
		}
		r.Row(name, target, t.measured("messages/s", false), verdict)
	}
}

func (a *remoteArms) notes(r *report.Result, rounds int, lasts time.Duration) {
	r.Note("Medians of %d rounds of %v each, all arms in turns; ratios are of rounds that follow each other. In each arm "+
		"one process calls another one, over TCP loopback; each is this program, started again, and does nothing else. "+
		"*Processor* is what those that work for a call used, all together: there are %d cores for them.", rounds, lasts,
		report.ThisMachine().Cores)
	r.Note("A call returns what it was sent. Each caller is a goroutine that makes one call after the other and reads "+
		"the "+
		"clock once a call, with a context that can end and has no deadline. %s: a generated client and server with their "+
		"defaults, and one connection. *%s*: two nodes with their defaults; the one that calls is not the "+
		"owner, and each caller has an object of its own. Calls get their default deadline of 30 s; so do the requests "+
		"of %s.", rawName, oursName, protoactorName)
	r.Note("%s: its remote with its defaults, `RequestFuture` to an actor for each caller. *A gRPC client*: the one "+
		"of %s, "+
		"with the header `goverse-key`, to the owner of the object or to another node.", protoactorName, rawName)
	r.Note("A stream is one at a time, and counted at the receiver from its first message on; one both ways is sent to " +
		"as " +
		"fast as it accepts it.")
}

// sizeOf formats a number of bytes.
func sizeOf(bytes int) string {
	if bytes < kib {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%d KiB", bytes/kib)
}
