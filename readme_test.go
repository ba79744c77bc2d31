package goverse

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readmeImports holds the imports of the README's programs, except the first one, which is complete.
const readmeImports = `package readme

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/elector/postgres"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/leaderonly"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/cluster/slogger"
	"github.com/goverse/goverse/examples/counter/counterpb"
	"github.com/goverse/goverse/node"
)

type Order struct{}

var (
	_ = errors.Is
	_ = slog.Default
	_ = net.Listen
	_ = http.NewServeMux
	_ time.Duration
	_ *pgxpool.Pool
	_ *clientv3.Client
	_ grpc.ServiceRegistrar
	_ cluster.Config
	_ leaderelection.Leader
	_ = elector.New
	_ = postgres.New
	_ = httpapi.New
	_ = leaderonly.Handler
	_ = objects.NotStarted
	_ counterpb.CounterServer
	_ = once.ErrUnknown
	_ processor.Position
	_ shard.Owner
	_ = slogger.New
)
`

// readmeGiven holds the parameters of each program of the README: the values that it uses and a reader has.
var readmeGiven = []string{
	`etcd string, publish func(context.Context, int64) error`,
	`c *cluster.Cluster, n *node.Node, err error, pb struct{ RegisterOrdersServer func(grpc.ServiceRegistrar, any) }`,
	`c *cluster.Cluster`,
	`n *node.Node, store, follow func(context.Context, int64) error`,
	`c *cluster.Cluster, publish func(context.Context, int64) error, send func(context.Context) ([]byte, error)`,
	`c *cluster.Cluster, orders processor.Source[Order], project func(context.Context, processor.Event[Order]) error`,
	`n *node.Node`,
	`pool *pgxpool.Pool, host string, publish func(context.Context, int64) error`,
}

// readmeTypes holds declarations that a program needs.
var readmeTypes = map[int]string{
	1: `type orders struct{ cluster *cluster.Cluster }`,
	2: `type counter struct { counterpb.UnimplementedCounterServer; key string }`,
}

// wholeProgram is the file with the README's first program.
const wholeProgram = "examples/leader/main.go"

// The programs of the README compile; the first one is one of the examples.
func TestReadmeCompiles(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var programs []string
	for i, part := range strings.Split(string(text), "```") {
		if code, ok := strings.CutPrefix(part, "go\n"); ok && i%2 == 1 {
			programs = append(programs, code)
		}
	}
	whole, err := os.ReadFile(wholeProgram)
	require.NoError(t, err)
	_, main, _ := strings.Cut(string(whole), "\npackage main")
	require.Equal(t, "package main"+main, programs[0], "copy "+wholeProgram+" into README.md")
	programs = programs[1:]
	require.Len(t, programs, len(readmeGiven), "each program has what it is given in readmeGiven")
	check := typeChecker(t)
	for i, program := range programs {
		source := fmt.Sprintf("%s\nfunc program(ctx context.Context, %s) {\n%s\n{\n%s\n}\n}\n", readmeImports, readmeGiven[i],
			readmeTypes[i], program)
		for _, err := range check(source) {
			t.Errorf("program %d of the README: %v", i+2, err)
		}
	}
	require.NotEmpty(t, check(readmeImports+"func program() { cluster.NoSuchName() }\n"), "the test finds errors")
}

// typeChecker returns a function that returns the errors in a source file. Unused variables are not errors.
func typeChecker(t *testing.T) func(source string) []error {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./cluster/...",
		"./node", "./examples/counter/counterpb", "github.com/jackc/pgx/v5/pgxpool").Output()
	require.NoError(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	set := token.NewFileSet()
	from := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	return func(source string) (errs []error) {
		file, err := parser.ParseFile(set, "README.md", source, 0)
		if err != nil {
			return []error{err}
		}
		cfg := types.Config{Importer: from, Error: func(err error) {
			if found, ok := err.(types.Error); !ok || !found.Soft {
				errs = append(errs, err)
			}
		}}
		_, _ = cfg.Check("readme", set, []*ast.File{file}, nil) // Error receives each error
		return errs
	}
}
