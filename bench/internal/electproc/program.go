package electproc

import (
	"context"
	"embed"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/goverse/goverse/bench/internal/reexec"
)

// Arg, followed by the name of a program, an etcd endpoint, a prefix, a name for the copy and a TTL, makes the process
// a copy of that program; see [Serve].
const Arg = "elect"

// A copy says these words with reexec.Ready.
const (
	// Queued is said before the copy waits to lead.
	Queued = "queued"
	// Leads is said when its work begins.
	Leads = "leads"
	// Stopped is said when its work has ended.
	Stopped = "stopped"
)

// Job is the job of one copy.
type Job struct {
	Etcd, Prefix, ID string
	TTL              time.Duration
	// SilenceTimeout is that of a node, 0 for the default, negative for none.
	SilenceTimeout time.Duration
	// Queued is called before the copy waits to lead.
	Queued func()
	// Work works until ctx ends.
	Work func(ctx context.Context)
}

// Program is one of the programs.
type Program struct {
	// Name names what it elects with.
	Name string
	file string
	run  func(context.Context, Job) error
}

// These are the programs that the tables name.
var (
	Alone  = Program{"leaderelection alone", "alone.go", runAlone}
	Node   = Program{"a node", "node.go", runNode}
	Recipe = Program{"concurrency.Election", "recipe.go", runRecipe}
)

// Leased is the program with a node without a silence time-out. It differs from the other one only if a leader stands
// still, or its host is lost.
var Leased = Program{"a node without a silence time-out", "node.go", func(ctx context.Context, job Job) error {
	job.SilenceTimeout = -1
	return runNode(ctx, job)
}}

// Programs returns all programs but Leased.
func Programs() []Program {
	return []Program{Alone, Node, {"cluster/elector", "elector.go", runElector}, Recipe,
		{"client-go", "clientgo.go", runClientGo}}
}

// Same reports whether two values are the same program.
func (p Program) Same(other Program) bool { return p.Name == other.Name }

// Run does the job until ctx ends.
func (p Program) Run(ctx context.Context, job Job) error { return p.run(ctx, job) }

//go:embed *.go
var sources embed.FS

// Lines returns the number of the program's lines that are neither blank nor comments.
func (p Program) Lines() (int, error) {
	text, err := sources.ReadFile(p.file)
	if err != nil {
		return 0, err
	}
	files := token.NewFileSet()
	file := files.AddFile(p.file, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0) // the compiler has found no error
	lines := map[int]bool{}
	for {
		pos, tok, _ := s.Scan()
		if tok == token.EOF {
			return len(lines), nil
		}
		lines[file.Line(pos)] = true
	}
}

// Serve runs a copy of a program. It reports whether args, without the program's name, ask for one; if so, it serves
// until SIGTERM or until standard input closes, and returns the error.
func Serve(args []string) (asked bool, err error) {
	if len(args) != 6 || args[0] != Arg {
		return false, nil
	}
	programs := append(Programs(), Leased)
	i := slices.IndexFunc(programs, func(p Program) bool { return p.Name == args[1] })
	if i < 0 {
		return true, fmt.Errorf("there is no program %s", args[1])
	}
	ttl, err := time.ParseDuration(args[5])
	if err != nil {
		return true, err
	}
	ctx, stop := signal.NotifyContext(reexec.UntilParentEnds(), syscall.SIGTERM)
	defer stop()
	silenceLibraries()
	return true, programs[i].Run(ctx, Job{Etcd: args[2], Prefix: args[3], ID: args[4], TTL: ttl,
		Queued: func() { reexec.Ready(Queued) },
		Work: func(ctx context.Context) {
			reexec.Ready(Leads)
			<-ctx.Done()
			reexec.Ready(Stopped)
		}})
}

// silenceLibraries discards what client-go and etcd's client log while they cannot reach etcd.
func silenceLibraries() {
	klog.SetLogger(klog.Logger{})
	_ = os.Setenv("ETCD_CLIENT_DEBUG", "fatal") // the level of the default logger; a valid name
}
