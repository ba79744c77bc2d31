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
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readmeImports holds the imports of the programs in documents that are no whole files.
const readmeImports = `package readme

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/automation"
	automationpg "github.com/goverse/goverse/cluster/automation/postgres"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/elector/electortest"
	"github.com/goverse/goverse/cluster/elector/postgres"
	"github.com/goverse/goverse/cluster/elector/redis"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/leaderonly"
	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/cluster/slogger"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/examples/counter/counterpb"
	"github.com/goverse/goverse/node"
)

type Order struct{}

type Invoice struct{ Customer, Amount string }

var (
	_ = errors.Is
	_ = slog.Default
	_ = net.Listen
	_ = http.NewServeMux
	_ time.Duration
	_ pgx.Tx
	_ *pgxpool.Pool
	_ automation.Outcome
	_ = automationpg.Tx
	_ goredis.UniversalClient
	_ *clientv3.Client
	_ grpc.ServiceRegistrar
	_ cluster.Config
	_ leaderelection.Leader
	_ = elector.New
	_ = electortest.Run
	_ = postgres.New
	_ = redis.New
	_ = httpapi.New
	_ = leaderonly.Handler
	_ = lockpg.New
	_ = pgnode.Join
	_ = pgsession.Open
	_ = objects.NotStarted
	_ counterpb.CounterServer
	_ = once.ErrUnknown
	_ processor.Position
	_ shard.Owner
	_ = slogger.New
	_ = clustertest.New
	_ testing.TB
)
`

// marks are comments before a program in a document: from names the file that it is a part of; given has the parameters
// of a function that has the program as its body, and with declarations that it needs. A program without a mark is a
// whole file.
var marks = regexp.MustCompile(`(?m)^<!-- (from|given|with): (.*) -->\n`)

// tutorialModule is the module that a reader of the tutorial makes.
const tutorialModule = "example.com/stock"

// program is a Go program in a document.
type program struct {
	document, code string
	marks          map[string]string
}

// programs returns the Go programs in a document, and what else it shows from files, in their order.
func programs(document, text string) (found []program) {
	parts := strings.Split(text, "```")
	for i := 1; i < len(parts); i += 2 {
		language, code, _ := strings.Cut(parts[i], "\n")
		p := program{document: document, code: code, marks: map[string]string{}}
		_, above, _ := cutLast(parts[i-1], "\n\n")
		for _, m := range marks.FindAllStringSubmatch(above, -1) {
			p.marks[m[1]] = m[2]
		}
		if _, ok := p.marks["from"]; ok || language == "go" {
			found = append(found, p)
		}
	}
	return found
}

// cutLast cuts s at the last sep. Without one, all of s is after it.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// source returns the program as a file for the type checker, or "" if it is a part of a file that is compiled anyway.
func (p program) source(t *testing.T) string {
	t.Helper()
	if name, ok := p.marks["from"]; ok {
		file, err := os.ReadFile(name)
		require.NoError(t, err, p.document)
		code := strings.ReplaceAll(p.code, tutorialModule, "github.com/goverse/goverse/examples/tutorial")
		require.Contains(t, string(file), strings.TrimSpace(code), "%s: this is not in %s", p.document, name)
		return ""
	}
	if given, ok := p.marks["given"]; ok {
		return fmt.Sprintf("%s\nfunc program(ctx context.Context, %s) {\n%s\n{\n%s\n}\n}\n", readmeImports, given,
			p.marks["with"], p.code)
	}
	require.True(t, strings.HasPrefix(p.code, "package "), "%s: a program without a mark is a whole file:\n%s", p.document,
		p.code)
	return p.code
}

// documents returns the names of all Markdown files of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("git", "ls-files", "-co", "--exclude-standard", "*.md").Output()
	if err != nil {
		t.Skip("not a git checkout")
	}
	return strings.Fields(string(out))
}

// The programs in the documents compile, or are parts of files that do. The README has the ten lines that elect a
// leader, and no more than 10 kB.
func TestProgramsInDocuments(t *testing.T) {
	check, count := typeChecker(t), 0
	for _, name := range documents(t) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		found := programs(name, string(text))
		count += len(found)
		for i, p := range found {
			for _, err := range check(p.source(t)) {
				t.Errorf("program %d of %s: %v", i+1, name, err)
			}
		}
		if name == "README.md" {
			require.LessOrEqual(t, len(text), 10_000, "the README is one page")
			require.Len(t, found, 1)
			_, body, _ := strings.Cut(found[0].code, "func lead(")
			body, _, _ = strings.Cut(body, "\n}\n")
			require.LessOrEqual(t, strings.Count(body, "\n"), 10, "ten lines elect a leader")
		}
	}
	require.Greater(t, count, 10)
	require.NotEmpty(t, check(readmeImports+"func program() { cluster.NoSuchName() }\n"), "the test finds errors")
}

// typeChecker returns a function that returns the errors in a source file, none if it is empty. Unused variables
// are not errors.
func typeChecker(t *testing.T) func(source string) []error {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./cluster/...",
		"./node", "./clustertest", "./examples/counter/counterpb", "os/signal",
		"github.com/jackc/pgx/v5/pgxpool").Output()
	require.NoError(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	set := token.NewFileSet()
	from := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	return func(source string) (errs []error) {
		if source == "" {
			return nil
		}
		file, err := parser.ParseFile(set, "program.go", source, 0)
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
