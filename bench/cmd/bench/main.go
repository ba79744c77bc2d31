// Command bench measures Goverse against its targets. It writes raw samples and plots into a directory, and
// tables into docs/benchmarks.md.
//
//	go run ./cmd/bench                 # everything, about an hour
//	go run ./cmd/bench -only T1,T2
//	go run ./cmd/bench -quick          # a smoke test; judges nothing
//
// Run it inside the directory bench, on an otherwise idle machine. Quick runs write into a temporary directory
// and leave the documentation alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goverse/goverse/bench/internal/callproc"
	"github.com/goverse/goverse/bench/internal/electproc"
	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/reexec"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/target"
)

type options struct {
	only    string
	quick   bool
	out     string
	doc     string
	profile string
	render  bool
}

func main() {
	reexec.ServeAndExit(etcdproc.Serve, reexec.Serve, callproc.Serve, electproc.Serve)
	var o options
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.StringVar(&o.only, "only", "", "measure these only, with commas between: "+strings.Join(names(), ","))
	flags.BoolVar(&o.quick, "quick", false, "few samples: shows that it works, judges nothing")
	flags.StringVar(&o.out, "out", "", `directory for samples and plots (default "results", with -quick a temporary one)`)
	flags.StringVar(&o.doc, "doc", "",
		`document to write the tables into (default "../docs/benchmarks.md", with -quick or -out none)`)
	flags.BoolVar(&o.render, "render", false, "measure nothing, write the tables from the results that are there")
	flags.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of this process to this file")
	_ = flags.Parse(os.Args[1:]) // ends the process on an error
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func names() []string {
	var out []string
	for _, b := range target.All() {
		out = append(out, b.Target)
	}
	return out
}

func run(ctx context.Context, o options) (err error) {
	if o, err = o.withDefaults(); err != nil {
		return err
	}
	if o.render {
		return document(o)
	}
	wanted, err := choose(o.only)
	if err != nil {
		return err
	}
	if o.profile != "" {
		f, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer func() { pprof.StopCPUProfile(); _ = f.Close() }()
	}
	env := target.Env{Quick: o.quick, Log: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
	}}
	var failed []error
	env.Log("on %s", report.ThisMachine())
	for _, b := range wanted {
		env.Log("%s: %s", b.Target, b.Title)
		r := &report.Result{Target: b.Target, Title: b.Title, When: time.Now(), Command: command(o), Quick: o.quick,
			Machine: report.ThisMachine()}
		if err := b.Run(ctx, env, r); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failed = append(failed, fmt.Errorf("%s: %w", b.Target, err))
			continue
		}
		if err := r.Save(o.out); err != nil {
			return err
		}
		fmt.Println(r.Markdown(o.out))
	}
	if o.doc != "" {
		failed = append(failed, document(o))
	}
	return errors.Join(failed...)
}

func (o options) withDefaults() (options, error) {
	if o.doc == "" && !o.quick && o.out == "" { // another directory may lack the other results
		o.doc = filepath.Join("..", "docs", "benchmarks.md")
	}
	switch {
	case o.out != "":
	case o.quick:
		dir, err := os.MkdirTemp("", "goverse-bench-quick-")
		if err != nil {
			return o, err
		}
		o.out = dir
	default:
		o.out = "results"
	}
	return o, nil
}

func choose(only string) ([]target.Benchmark, error) {
	all := target.All()
	if only == "" {
		return all, nil
	}
	var out []target.Benchmark
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(b target.Benchmark) bool { return b.Target == name })
		if i < 0 {
			return nil, fmt.Errorf("-only %s: there is %s", name, strings.Join(names(), ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// command returns the command line that repeats a result.
func command(o options) string {
	c := "go run ./cmd/bench"
	if o.only != "" {
		c += " -only " + o.only
	}
	if o.quick {
		c += " -quick"
	}
	return c
}

// document writes the tables of every target that has a result in o.out.
func document(o options) error {
	var results []*report.Result
	for _, name := range names() {
		r, err := report.Load(o.out, name)
		if err != nil {
			return err
		}
		if r != nil {
			results = append(results, r)
		}
	}
	// Rel needs absolute paths: it cannot name a directory that ".." stands for.
	doc, err := filepath.Abs(o.doc)
	if err != nil {
		return err
	}
	out, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	pictures, err := filepath.Rel(filepath.Dir(doc), out)
	if err != nil {
		return err
	}
	return report.UpdateDocument(doc, report.Markdown(results, pictures))
}
